package httpapi

import "github.com/google/uuid"

const maxRequestID = 128

// appendRequestID appends the client's x-request-id if it is 1 to 128 of [A-Za-z0-9._-], else a new UUIDv7.
func appendRequestID(dst, presented []byte) []byte {
	if validRequestID(presented) {
		return append(dst, presented...)
	}
	return append(dst, uuid.Must(uuid.NewV7()).String()...)
}

func validRequestID(id []byte) bool {
	if len(id) == 0 || len(id) > maxRequestID {
		return false
	}
	for _, c := range id {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
