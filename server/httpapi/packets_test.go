package httpapi_test

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// volatileFields are the header fields whose values differ between two answers to the same request.
var volatileFields = regexp.MustCompile(`(?m)^(Date|x-request-id|RateLimit-Remaining|RateLimit-Reset): .*\r$`)

// TestAnswersDoNotDependOnPackets sends each text twice: as a whole, and cut into packets. Both answers have the same bytes.
func TestAnswersDoNotDependOnPackets(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Config: httpapi.Config{MaxHeaderBytes: 4 << 10, MaxBodyBytes: 1 << 16, RefusalsPerSecond: 1 << 20}})
	etag := a.get(examPath + "/overview").header.Get("Etag")
	authorized := "Host: x\r\nAuthorization: Bearer " + a.Key + "\r\n"
	get := func(path, header string) string {
		return "GET " + path + " HTTP/1.1\r\n" + authorized + header + "\r\n"
	}
	body := `{"paper_id":"none"}`
	post := "POST " + examPath + "/mock-exams/open HTTP/1.1\r\n" + authorized + "Content-Type: application/json\r\n"
	overview := get(examPath+"/overview", "")
	lasting := []string{
		overview, get(examPath+"/resources", ""), get(examPath+"/study-path", "Accept: */*\r\n"),
		get(examPath+"/mock-exams", "User-Agent: a test\r\nConnection: keep-alive\r\n"),
		get("/v1/exam-prep/list", ""), get("/v1/exam-prep/list?country=spain&country_code=br", ""), get("/v1/exam-prep/list?country_code=%zz&limit=1", ""),
		get(examPath+"/overview", "If-None-Match: "+etag+"\r\n"), get(examPath+"/overview", "Accept-Encoding: br\r\n"),
		get(examPath+"/mock-exams/history?limit=2", ""), get(examPath+"/mock-exams/history?limit=x", ""),
		get("/v1/exam-prep/none/overview", ""), get("/v1/exam-prep//overview", ""), get("/v1/exam-prep/../overview", ""), get(examPath+"/overview/", ""),
		get(examPath+"/none", ""), get("/v1/openapi.json", ""), get("/v1/exam-prep/a%2Fb/overview", ""),
		"GET " + examPath + "/overview HTTP/1.1\r\nHost: x\r\n\r\n", "GET " + examPath + "/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer none\r\n\r\n",
		strings.Replace(overview, "Host: x", "Host: [::1]:80", 1), strings.Replace(overview, "GET", "HEAD", 1), strings.Replace(overview, "GET", "PUT", 1),
		get(examPath+"/overview", "Content-Length: 2\r\n") + "{}", post + withLength(body),
	}
	// A request that ends its connection comes last: bytes behind it may reset the connection, and the answer is lost.
	ending := []string{
		"GET " + examPath + "/overview HTTP/1.1\r\n\r\n", strings.Replace(overview, "Host: x", "Host: x:y", 1), strings.Replace(overview, "1.1", "1.0", 1),
		get(examPath+"/overview#x", ""), get(examPath+"/overview", "Connection: close\r\n"), get(examPath+"/overview", "Connection: Close\r\n"),
		get(examPath+"/overview", "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n", get(examPath+"/overview", "Expect: 100-continue\r\n"),
		get(examPath+"/overview", " folded\r\n"), get(examPath+"/overview", "broken\r\n"), strings.ReplaceAll(overview, "\r\n", "\n"),
		get(examPath+"/overview", "Long: "+strings.Repeat("x", 5<<10)+"\r\n"),
		post + "Transfer-Encoding: chunked\r\n\r\n" + chunked(body), "nothing of the kind\r\n\r\n",
	}
	rapid.Check(t, func(r *rapid.T) {
		sent := strings.Join(rapid.SliceOfN(rapid.SampledFrom(lasting), 0, 3).Draw(r, "requests"), "") +
			rapid.SampledFrom(slices.Concat(lasting, ending)).Draw(r, "last")
		if rapid.IntRange(0, 3).Draw(r, "cut off") == 0 {
			sent = sent[:rapid.IntRange(1, len(sent)).Draw(r, "length")]
		}
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(sent)), 0, 3).Draw(r, "packets end")
		got, want := a.converse(t, sent, cuts), a.converse(t, sent, nil)
		if got != want {
			r.Fatalf("packets that end at %v get %q\nto %q\nthe whole gets %q", cuts, got, sent, want)
		}
	})
}

// converse sends the text, in packets that end at the cuts, and returns the answers without their volatile values.
func (a *api) converse(t *testing.T, text string, cuts []int) string {
	t.Helper()
	conn := a.dial(t, "tcp")
	defer func() { _ = conn.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		from := 0
		for _, cut := range cuts {
			if cut > from {
				_, _ = io.WriteString(conn, text[from:cut])
				from = cut
			}
		}
		_, _ = io.WriteString(conn, text[from:])
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	received, err := io.ReadAll(conn)
	check.NoErrorf(t, err, "after %q", received)
	<-done
	return volatileFields.ReplaceAllString(string(received), "$1\r")
}
