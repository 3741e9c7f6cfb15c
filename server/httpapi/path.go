package httpapi

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// examKey decodes the path parameter, once. What cannot be an exam's key (broken encoding, control characters) names no
// exam: the specification knows 404 for these paths and no 400. The key is a copy: caches keep it.
func examKey(r *request) (string, error) {
	segment, _ := r.http.UserValue("exam_key").(string)
	decoded, err := url.PathUnescape(segment)
	if err != nil || !utf8.ValidString(decoded) || strings.ContainsFunc(decoded, unicode.IsControl) {
		return "", examNotFound()
	}
	return decoded, nil
}

// pathValue decodes a parameter of the path, once. It is a copy; what cannot be decoded is empty and names nothing.
func pathValue(r *request, name string) string {
	segment, _ := r.http.UserValue(name).(string)
	decoded, err := url.PathUnescape(segment)
	if err != nil {
		return ""
	}
	return decoded
}

// pathUUID reads an id of the path; what is no UUID names nothing.
func pathUUID(r *request, name string) (uuid.UUID, error) {
	id, isID := parseUUID(pathValue(r, name))
	if !isID {
		return uuid.Nil, noSuchResource()
	}
	return id, nil
}
