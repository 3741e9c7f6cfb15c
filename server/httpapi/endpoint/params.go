package endpoint

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/codec"
)

// ExamKey returns the exam's key of the path. A segment that cannot be a key (broken encoding, control characters) names no
// exam: these paths have no 400 in the specification. The key is a copy.
func (r *Request) ExamKey() (string, error) {
	segment, _ := r.HTTP.UserValue("exam_key").(string)
	decoded, err := url.PathUnescape(segment)
	if err != nil || !utf8.ValidString(decoded) || strings.ContainsFunc(decoded, unicode.IsControl) {
		return "", apierror.ExamNotFound()
	}
	return decoded, nil
}

// Param returns a decoded parameter of the path, as a copy. It is empty if it cannot be decoded.
func (r *Request) Param(name string) string {
	segment, _ := r.HTTP.UserValue(name).(string)
	decoded, err := url.PathUnescape(segment)
	if err != nil {
		return ""
	}
	return decoded
}

// UUID returns an id of the path. A segment that is not a UUID names nothing.
func (r *Request) UUID(name string) (uuid.UUID, error) {
	id, isID := codec.ParseUUID(r.Param(name))
	if !isID {
		return uuid.Nil, apierror.NotFound()
	}
	return id, nil
}
