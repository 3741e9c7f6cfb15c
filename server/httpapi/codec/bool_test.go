package codec

import (
	"errors"
	"testing"

	"examprep.dev/server/httpapi/apierror"
)

func TestBooleansAreReadExactly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		query, body string
		before      bool
		want, valid bool
	}{
		{"", `{}`, false, false, true},
		{"", `{}`, true, true, true},
		{"all=true", `{"all":true}`, false, true, true},
		{"all=false", `{"all":false}`, true, false, true},
		{"all=", `{"all":""}`, false, false, false},
		{"all=1", `{"all":1}`, false, false, false},
		{"all=True", `{"all":"true"}`, false, false, false},
		{"", `{"all":null}`, true, true, true},
		{"all=true&all=true", `{"all":0}`, false, false, false},
		{"all=%ff", `{"all":[true]}`, false, false, false},
	} {
		for source, fields := range map[string]*Fields{c.query: parseQuery([]byte(c.query)), c.body: parseObject([]byte(c.body))} {
			got := c.before
			fields.Bool("all", &got)
			err := fields.Check()
			if valid := err == nil; valid != c.valid || valid && got != c.want {
				t.Errorf("%q: %v, %v; want %v, valid: %v", source, got, err, c.want, c.valid)
			}
			if refused, is := errors.AsType[*apierror.Error](err); is && (len(refused.Fields) != 1 || refused.Fields[0].Name != "all") {
				t.Errorf("%q: the field is not named: %v", source, refused.Fields)
			}
		}
	}
}
