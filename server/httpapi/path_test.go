package httpapi

import (
	"errors"
	"testing"
)

func TestExamKey(t *testing.T) {
	for segment, want := range map[string]string{
		"xx-sample": "xx-sample", "a~b!c": "a~b!c", "%78x": "xx", "a%20b": "a b", "a%2Fb": "a/b", "100%25": "100%", "é": "é", "%C3%A9": "é",
		"": "", "%": "", "%zz": "", "%C3": "", "\xc3": "", "%00": "", "a%0Ab": "", "%7F": "", "%C2%80": "", "\u0085": "",
	} {
		r := &request{http: asked("GET", examPaths+segment+"/overview")}
		for name, read := range map[string]func(*request) (string, error){"examKey": examKey, "lentExamKey": lentExamKey} {
			key, err := read(r)
			if _, refused := errors.AsType[*apiError](err); key != want || refused != (want == "" && segment != "") {
				t.Errorf("%s of %q: %q, %v, want %q", name, segment, key, err, want)
			}
		}
	}
}

// TestAnExamKeyOutlivesItsRequest: the next request on a connection is read into the same memory.
func TestAnExamKeyOutlivesItsRequest(t *testing.T) {
	for _, segment := range []string{"xx-sample", "%78x-sample", "é"} {
		ctx := asked("GET", examPaths+segment+"/overview")
		key, err := examKey(&request{http: ctx})
		if err != nil {
			t.Fatal(err)
		}
		before := string([]byte(key))
		clear(sentPath(ctx))
		if key != before {
			t.Errorf("%q has become %q", before, key)
		}
	}
}
