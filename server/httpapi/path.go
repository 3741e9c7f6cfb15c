package httpapi

import (
	"context"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"github.com/google/uuid"
)

// examKey decodes the path parameter, once. What cannot be an exam's key (broken encoding, control characters) names no
// exam: the specification knows 404 for these paths and no 400. The key is a copy: caches keep it.
//
// It is cut from the path and not a value of the router, which examRouter does not always ask.
func examKey(r *request) (string, error) {
	key, err := lentExamKey(r)
	return strings.Clone(key), err
}

// lentExamKey is examKey for who is done with the key before the request is answered: it may be the request's own bytes.
func lentExamKey(r *request) (string, error) {
	raw, _, _ := cutExamPath(sentPath(r.http))
	segment := unsafe.String(unsafe.SliceData(raw), len(raw)) //nolint:gosec // as said
	if isPlain(segment) {
		return segment, nil
	}
	decoded, err := url.PathUnescape(segment)
	if err != nil || !utf8.ValidString(decoded) || strings.ContainsFunc(decoded, unicode.IsControl) {
		return "", examNotFound()
	}
	return decoded, nil
}

// isPlain reports whether a segment stands for itself: printable ASCII, none of it encoded.
func isPlain(segment string) bool {
	for _, c := range []byte(segment) {
		if c < ' ' || c > '~' || c == '%' {
			return false
		}
	}
	return true
}

// pathValue decodes a parameter of the path, once. It is a copy; what cannot be decoded is empty and names nothing.
func pathValue(r *request, name string) string {
	segment, _ := r.http.UserValue(name).(string)
	decoded, err := url.PathUnescape(segment)
	if err != nil {
		return ""
	}
	return strings.Clone(decoded)
}

// pathID reads an id of the path; what is no UUID names nothing.
func pathID(ctx context.Context, r *request, name string) (uuid.UUID, error) {
	id, isID := parseUUID(pathValue(r, name))
	if !isID {
		return uuid.Nil, notFound(ctx, r)
	}
	return id, nil
}

// parseUUID takes the one form that the interface writes, in either case.
func parseUUID(text string) (uuid.UUID, bool) {
	if len(text) != len(uuid.Nil.String()) {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}
