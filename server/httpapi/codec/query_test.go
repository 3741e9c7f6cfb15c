package codec

import (
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/apierror"
)

type sampleQuery struct {
	Limit   int
	Learner string
	Code    string
}

func (q *sampleQuery) read(raw []byte) error {
	query := parseQuery(raw)
	query.Integer("limit", &q.Limit, 1, 50)
	query.Text("learner_id", &q.Learner, 0, 5)
	q.Code = query.Match("country_code", "must be two letters (ISO 3166-1 alpha-2)", isTwoLetters)
	return query.Check()
}

func isTwoLetters(value string) bool {
	isLetter := func(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
	return len(value) == 2 && isLetter(value[0]) && isLetter(value[1])
}

func TestQueriesAreReadExactly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		query string
		want  sampleQuery
		field string // "" for success
	}{
		{"", sampleQuery{}, ""},
		{"limit=5&learner_id=a+b%C3%A9&country_code=br", sampleQuery{5, "a bé", "br"}, ""},
		{"l%69mit=5", sampleQuery{Limit: 5}, ""},
		{"learner_id=", sampleQuery{}, ""},
		{"learner_id=ééééé", sampleQuery{Learner: "ééééé"}, ""},
		{"other=%zz&&=&x=1&x=2", sampleQuery{}, ""},
		{"limit", sampleQuery{}, "limit"},
		{"limit=", sampleQuery{}, "limit"},
		{"limit=0", sampleQuery{}, "limit"},
		{"limit=51", sampleQuery{}, "limit"},
		{"limit=-1", sampleQuery{}, "limit"},
		{"limit=1.0", sampleQuery{}, "limit"},
		{"limit=%2B5", sampleQuery{}, "limit"},
		{"limit=99999999999999999999", sampleQuery{}, "limit"},
		{"limit=5&limit=5", sampleQuery{}, "limit"},
		{"learner_id=abcdef", sampleQuery{}, "learner_id"},
		{"learner_id=%ff", sampleQuery{}, "learner_id"},
		{"learner_id=%4", sampleQuery{}, "learner_id"},
		{"learner_id=a%00", sampleQuery{}, "learner_id"},
		{"country_code=", sampleQuery{}, "country_code"},
		{"country_code=b", sampleQuery{}, "country_code"},
		{"country_code=bra", sampleQuery{}, "country_code"},
		{"country_code=b1", sampleQuery{}, "country_code"},
		{"country_code=%C3%A9", sampleQuery{}, "country_code"},
	} {
		t.Run(c.query, func(t *testing.T) {
			var got sampleQuery
			err := got.read([]byte(c.query))
			if c.field == "" {
				if err != nil || got != c.want {
					t.Errorf("read %+v, %v, want %+v", got, err, c.want)
				}
				return
			}
			var refusal *apierror.Error
			if !errors.As(err, &refusal) || refusal.Code != apierror.CodeValidationFailed || refusal.Fields[0].Name != c.field {
				t.Errorf("error = %v, want %s named", err, c.field)
			}
		})
	}
}

func FuzzDecodeQuery(f *testing.F) {
	for _, seed := range []string{"limit=5&learner_id=a+b%C3%A9", "limit=5&limit=6", "learner_id=%ff", "&&=&%zz=%zz", "country_code=br"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got sampleQuery
		err := got.read(raw)
		var refusal *apierror.Error
		switch {
		case err == nil && (got.Limit < 0 || got.Limit > 50 || utf8.RuneCountInString(got.Learner) > 5 || !utf8.ValidString(got.Learner)):
			t.Fatalf("admitted %+v", got)
		case err != nil && (!errors.As(err, &refusal) || refusal.Status != fasthttp.StatusBadRequest || len(refusal.Fields) == 0):
			t.Fatalf("error = %#v", err)
		}
	})
}
