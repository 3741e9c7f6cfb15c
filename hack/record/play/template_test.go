package play

import (
	"strings"
	"testing"
	"time"

	"examprep.dev/hack/record/normalise"
	"examprep.dev/hack/record/script"
	"examprep.dev/hack/record/wire"
	"examprep.dev/server/testkit/check"
)

func TestSegmentsExpandTemplates(t *testing.T) {
	for name, c := range map[string]struct {
		templates []string
		want      []string
	}{
		"variable":            {[]string{"a <<known>> b"}, []string{"a value b"}},
		"unknown":             {[]string{"<<nothing>>"}, []string{"missing-nothing"}},
		"fresh is one":        {[]string{"<<fresh>>, <<fresh>>"}, []string{"key-2, key-2"}},
		"length":              {[]string{"Content-Length: <<length>>\r\n\r\n<<known>>"}, []string{"Content-Length: 5\r\n\r\nvalue"}},
		"length over pieces":  {[]string{"L: <<length>>\r\n\r\nab", "cd", "e"}, []string{"L: 5\r\n\r\nab", "cd", "e"}},
		"length without body": {[]string{"L: <<length>>\r\n"}, []string{"L: 0\r\n"}},
		"bytes":               {[]string{"\xff\x00<<>>"}, []string{"\xff\x00<<>>"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Runner{variables: map[string]string{"known": "value"}, stock: []string{"key-1", "key-2"}}
			var got []string
			for _, segment := range r.segments(c.templates) {
				got = append(got, string(segment.Bytes))
			}
			check.Equal(t, strings.Join(got, "|"), strings.Join(c.want, "|"), "headers")
		})
	}
}

func TestSegmentAfterContinueIsMarked(t *testing.T) {
	r := &Runner{variables: map[string]string{}}
	got := r.segments([]string{"head", script.Continue + "body"})
	if got[0].AfterContinue || !got[1].AfterContinue || string(got[1].Bytes) != "body" {
		t.Errorf("%+v", got)
	}
}

func TestKeepReadsBodyHeaderAndCookie(t *testing.T) {
	r := &Runner{variables: map[string]string{}, report: t.Logf}
	response := wire.Response{
		Status: "HTTP/1.1 200 OK", Body: []byte(`{"id":"a","list":[{"id":"b"}]}`),
		Headers: []wire.Header{{Name: "Etag", Value: `"c"`}, {Name: "Set-Cookie", Value: "x=d; path=/"}},
	}
	r.keep(script.Exchange{Keep: map[string]string{
		"one": "body.id", "two": "body.list.0.id", "three": "header.ETag", "four": "cookie.x", "none": "body.list.1.id",
	}}, []wire.Response{response})
	for name, want := range map[string]string{"one": "a", "two": "b", "three": `"c"`, "four": "d", "none": ""} {
		check.Equal(t, r.variables[name], want, "%s", name)
	}
}

func TestClientAddressesAreUnique(t *testing.T) {
	r := &Runner{}
	seen := make(map[string]bool)
	for range 100_000 {
		address, err := r.source("")
		check.NoError(t, err)
		if seen[address.String()] || !address.IsLoopback() {
			t.Fatalf("%s", address)
		}
		seen[address.String()] = true
	}
}

func TestDecodeTakesOffTheCoding(t *testing.T) {
	for name, c := range map[string]struct{ coding, body, want, noted string }{
		"none":    {"", "abc", "abc", ""},
		"broken":  {"br", "abc", "abc", "br (broken)"},
		"unknown": {"x", "abc", "abc", "x (unknown)"},
		"gzip":    {"gzip", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01\x02\x00\xfd\xff\x68\x69\xac\x2a\x93\xd8\x02\x00\x00\x00", "hi", "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			body, coding := decode(wire.Response{Body: []byte(c.body), Headers: []wire.Header{{Name: "Content-Encoding", Value: c.coding}}})
			if string(body) != c.want || coding != c.noted {
				t.Errorf("%q, %q", body, coding)
			}
		})
	}
}

func TestPrintableKeepsBytesApart(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"text": {"é\r\n", "é\r\n"}, "bytes": {"\xff", `bytes:"\xff"`}, "character cut": {strings.Repeat("a", 199) + "é", strings.Repeat("a", 199) + "… (201 bytes, sha256:"},
	} {
		if got := printable([]byte(c.content), 200); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAllowanceOfASessionIsNotRecorded(t *testing.T) {
	response := wire.Response{Status: "HTTP/1.1 200 OK", Headers: []wire.Header{
		{Name: "RateLimit-Limit", Value: "120"}, {Name: "RateLimit-Remaining", Value: "118"}, {Name: "RateLimit-Reset", Value: "1"},
	}}
	for sent, want := range map[string]string{
		"Cookie: __Host-examprep_session=<<ada>>\r\n":   "RateLimit-Limit: 120|RateLimit-Remaining: <of the session>|RateLimit-Reset: <of the session>",
		"Cookie: __Host-examprep_session=noise\r\n":     "RateLimit-Limit: 120|RateLimit-Remaining: 118|RateLimit-Reset: 1",
		"Authorization: Bearer <<ada>>\r\n":             "RateLimit-Limit: 120|RateLimit-Remaining: 118|RateLimit-Reset: 1",
		"Cookie: __Host-examprep_session=\"<<ada>>\"\r": "RateLimit-Limit: 120|RateLimit-Remaining: <of the session>|RateLimit-Reset: <of the session>",
	} {
		got := record(normalise.New(time.Now()).Exchange("a"), response, script.Exchange{Send: []string{sent}})
		check.Equal(t, strings.Join(got.Headers, "|"), want, "%q", sent)
	}
}
