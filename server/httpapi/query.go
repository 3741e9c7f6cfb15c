package httpapi

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"
)

// A query has the parameters of a request by name, still encoded. A getter sets its target if the parameter is given, and
// notes its problem. A repeated parameter is one, and so is a value that is not percent-encoded UTF-8. Unknown parameters
// are ignored, however broken.
type query struct {
	values map[string][]string
	problems
}

func readQuery(ctx *fasthttp.RequestCtx) *query { return parseQuery(ctx.URI().QueryString()) }

func parseQuery(raw []byte) *query {
	q := new(query)
	if len(raw) == 0 {
		return q
	}
	q.values = make(map[string][]string)
	for pair := range strings.SplitSeq(string(raw), "&") {
		rawName, value, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(rawName); err == nil {
			q.values[name] = append(q.values[name], value)
		}
	}
	return q
}

func (q *query) get(name string) (value string, given bool) {
	values := q.values[name]
	if len(values) == 0 {
		return "", false
	}
	value, err := url.QueryUnescape(values[0])
	switch {
	case len(values) > 1:
		q.note(name, "is given more than once")
	case err != nil || !utf8.ValidString(value):
		q.note(name, "is not percent-encoded UTF-8")
	default:
		return value, true
	}
	return "", false
}

func (q *query) integer(name string, target *int, least, most int) {
	if value, given := q.get(name); given {
		number, err := strconv.Atoi(value) // out of range it is the nearest bound, which checkRange refuses
		if err != nil && !errors.Is(err, strconv.ErrRange) || value[0] == '+' {
			q.note(name, "must be an integer")
		} else {
			*target = number
			q.note(name, checkRange(number, least, most))
		}
	}
}

func (q *query) text(name string, target *string, most int) {
	if value, given := q.get(name); given {
		*target = value
		q.note(name, checkLength(value, 0, most))
	}
}

// match returns a value that is accepted; the others have the problem.
func (q *query) match(name, problem string, accept func(string) bool) string {
	value, given := q.get(name)
	if given && !accept(value) {
		q.note(name, problem)
	}
	return value
}
