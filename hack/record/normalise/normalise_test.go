package normalise_test

import (
	"slices"
	"testing"
	"time"

	"examprep.dev/hack/record/normalise"
	"examprep.dev/hack/record/wire"
	"examprep.dev/server/testkit/check"
)

var started = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const (
	first  = "019aa8f6-5b1e-7c43-9d2b-6f0f8f1c2a31"
	second = "019aa909-4a0f-7e21-a6f5-71c3d09b84e5"
	key    = "service_0123456789abcdef0123456789abcdef0123456789abcdef"
)

func TestTextReplacesWhatChangesFromRunToRun(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"uuid":             {`{"id":"` + first + `"}`, `{"id":"<uuid#1>"}`},
		"two uuids":        {first + " " + second + " " + first, "<uuid#1> <uuid#2> <uuid#1>"},
		"own uuid":         {"00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000000"},
		"key":              {key, "<key#1>"},
		"prefix":           {"service_01234567", "<prefix#1>"},
		"own prefix text":  {"service_0123", "service_0123"},
		"secret":           {"whsec_abcDEF+/=", "<secret#1>"},
		"time":             {"2026-03-02T09:00:01.123456Z", "<time#1>"},
		"offset of a time": {"2026-03-02T09:00:01.5Z 2026-03-02T09:25:01.5Z", "<time#1> <time#1+1500s>"},
		"unrelated times":  {"2026-03-02T09:00:01.5Z 2026-03-02T09:25:01.6Z", "<time#1> <time#2>"},
		"whole seconds":    {"2026-03-02T09:00:01Z 2026-03-02T09:25:01Z", "<time#1> <time#2>"},
		"far time":         {"2090-01-02T01:04:05.678Z", "2090-01-02T01:04:05.678Z"},
		"today":            {"2026-03-02", "<today>"},
		"near day":         {"2026-02-01", "<today-29>"},
		"far day":          {"2020-01-01", "2020-01-01"},
		"no day":           {"2026-02-31", "2026-02-31"},
		"duration":         {`{"duration_sec":12,"duration_ms":3}`, `{"duration_sec":"<duration>","duration_ms":"<duration>"}`},
		"literal":          {"http://127.0.0.1:4711/x", "http://<api>/x"},
		"other":            {`{"error":"not_found","n":1.5}`, `{"error":"not_found","n":1.5}`},
	} {
		t.Run(name, func(t *testing.T) {
			n := normalise.New(started, normalise.Literal{Text: "127.0.0.1:4711", Placeholder: "<api>"})
			check.Equal(t, n.Exchange("a").Text(c.text), c.want, "normalised text")
		})
	}
}

func TestPlaceholdersKeepEqualityAcrossExchanges(t *testing.T) {
	n := normalise.New(started)
	opened := n.Exchange("open")
	check.Equal(t, opened.Text(first+" "+second), "<uuid#1> <uuid#2>", "the first exchange")
	check.Equal(t, n.Exchange("history").Text(second+" "+key+" 019aa905-77a9-7f60-8e4d-2b1c7a95d013"), "<uuid#2 of open> <key#1> <uuid#1>", "the second exchange")
	check.Equal(t, opened.Text(first), "<uuid#1>", "the first exchange again")
}

func TestHeadersAreSortedAndNormalised(t *testing.T) {
	headers := func(code, cache, policy string, body string, more ...wire.Header) []string {
		response := wire.Response{Status: "HTTP/1.1 " + code, Body: []byte(body), Headers: append([]wire.Header{
			{Name: "Cache-Control", Value: cache}, {Name: "RateLimit-Policy", Value: policy},
		}, more...)}
		return normalise.New(started).Exchange("a").Headers(response)
	}
	const slow, fast = "2;w=2678400", "120;w=60"
	for name, c := range map[string]struct {
		got  []string
		want string
	}{
		"date":                     {headers("200 OK", "", fast, "", wire.Header{Name: "Date", Value: "Mon, 02 Mar 2026 09:00:00 GMT"}), "Date: <date>"},
		"own request id":           {headers("200 OK", "", fast, "", wire.Header{Name: "x-request-id", Value: "mine"}), "x-request-id: mine"},
		"made request id":          {headers("200 OK", "", fast, "", wire.Header{Name: "x-request-id", Value: first}), "x-request-id: <request-id#1>"},
		"cookie":                   {headers("200 OK", "", fast, "", wire.Header{Name: "Set-Cookie", Value: "__Host-examprep_session=abc; path=/"}), "Set-Cookie: __Host-examprep_session=<token#1>; path=/"},
		"removed cookie":           {headers("200 OK", "", fast, "", wire.Header{Name: "Set-Cookie", Value: "__Host-examprep_session=; path=/"}), "Set-Cookie: __Host-examprep_session=; path=/"},
		"reset of a fast bucket":   {headers("200 OK", "", fast, "", wire.Header{Name: "RateLimit-Reset", Value: "60"}), "RateLimit-Reset: 60"},
		"reset of one slow token":  {headers("200 OK", "", slow, "", wire.Header{Name: "RateLimit-Reset", Value: "1339200"}), "RateLimit-Reset: <1 tokens>"},
		"a moment later":           {headers("200 OK", "", slow, "", wire.Header{Name: "RateLimit-Reset", Value: "1339160"}), "RateLimit-Reset: <1 tokens>"},
		"reset of two slow tokens": {headers("200 OK", "", slow, "", wire.Header{Name: "RateLimit-Reset", Value: "2678400"}), "RateLimit-Reset: <2 tokens>"},
		"reset of a full bucket":   {headers("200 OK", "", slow, "", wire.Header{Name: "RateLimit-Reset", Value: "0"}), "RateLimit-Reset: <0 tokens>"},
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(c.got, c.want) {
				t.Errorf("%q, want %q", c.got, c.want)
			}
		})
	}
}

func TestContentLengthIsKeptUnlessItIsRightOrUnforeseeable(t *testing.T) {
	for name, c := range map[string]struct{ status, cache, length, body, want string }{
		"right":                 {"HTTP/1.1 200 OK", "no-store", "3", "abc", "<length>"},
		"wrong":                 {"HTTP/1.1 200 OK", "no-store", "4", "abc", "4"},
		"zero":                  {"HTTP/1.1 200 OK", "no-store", "0", "", "0"},
		"HEAD of a document":    {"HTTP/1.1 200 OK", "private, no-cache", "4711", "", "4711"},
		"HEAD of a made body":   {"HTTP/1.1 200 OK", "no-store", "111", "", "<length of another body>"},
		"HEAD of a refusal":     {"HTTP/1.1 404 Not Found", "no-store", "50", "", "50"},
		"no length of a 304":    {"HTTP/1.1 304 Not Modified", "private, no-cache", "0", "", "0"},
		"right and compressed":  {"HTTP/1.1 200 OK", "private, no-cache", "3", "\x1f\x8b\x08", "<length>"},
		"right of a redirected": {"HTTP/1.1 303 See Other", "no-store", "1", "a", "<length>"},
	} {
		t.Run(name, func(t *testing.T) {
			response := wire.Response{Status: c.status, Body: []byte(c.body), Headers: []wire.Header{
				{Name: "Content-Length", Value: c.length}, {Name: "Cache-Control", Value: c.cache},
			}}
			check.Equal(t, normalise.New(started).Exchange("a").Headers(response)[1], "Content-Length: "+c.want, "header")
		})
	}
}

func TestRedirectToTheProviderIsNormalised(t *testing.T) {
	response := wire.Response{Status: "HTTP/1.1 303 See Other", Headers: []wire.Header{
		{Name: "Location", Value: "http://127.0.0.1:1/authorize?code_challenge=abc&code_challenge_method=S256&nonce=def&state=ghi"},
	}}
	n := normalise.New(started, normalise.Literal{Text: "127.0.0.1:1", Placeholder: "<issuer>"})
	want := "Location: http://<issuer>/authorize?code_challenge=<code_challenge#1>&code_challenge_method=S256&nonce=<nonce#1>&state=<state#1>"
	check.Equal(t, n.Exchange("a").Headers(response)[0], want, "header")
}
