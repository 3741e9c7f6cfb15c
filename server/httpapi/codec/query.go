package codec

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"
)

// Query has the parameters of a request by name, still encoded. A getter sets its target if the parameter is given, and
// notes its problem. A repeated parameter is a problem, and so is a value that is not percent-encoded UTF-8. Unknown
// parameters are ignored, even malformed ones.
type Query struct {
	values map[string][]string
	problems
}

// ReadQuery reads the query of a request.
func ReadQuery(ctx *fasthttp.RequestCtx) *Query { return parseQuery(ctx.URI().QueryString()) }

func parseQuery(raw []byte) *Query {
	q := new(Query)
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

func (q *Query) get(name string) (value string, given bool) {
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

// Integer reads a decimal integer of low to high.
func (q *Query) Integer(name string, target *int, low, high int) {
	if value, given := q.get(name); given {
		number, err := strconv.Atoi(value) // out of range it is the nearest bound, which checkRange refuses
		if err != nil && !errors.Is(err, strconv.ErrRange) || value[0] == '+' {
			q.note(name, "must be an integer")
		} else {
			*target = number
			q.note(name, checkRange(number, low, high))
		}
	}
}

// Text reads at most high characters.
func (q *Query) Text(name string, target *string, high int) {
	q.Opaque(name, target, high)
	if strings.ContainsRune(*target, 0) {
		q.note(name, hasNUL)
	}
}

// Opaque is Text that admits U+0000: its value is not stored as text.
func (q *Query) Opaque(name string, target *string, high int) {
	if value, given := q.get(name); given {
		*target = value
		q.note(name, checkLength(value, 0, high))
	}
}

// Match returns a value, and notes the problem of one that accept refuses.
func (q *Query) Match(name, problem string, accept func(string) bool) string {
	value, given := q.get(name)
	if given && !accept(value) {
		q.note(name, problem)
	}
	return value
}

// Has reports whether a parameter is given.
func (q *Query) Has(name string) bool { return len(q.values[name]) > 0 }

// Check returns the error of the request, nil if there is none.
func (q *Query) Check() error { return q.err() }
