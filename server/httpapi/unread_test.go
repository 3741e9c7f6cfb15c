package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit/check"
)

// largePages are attempts whose pages have a question of this many bytes.
type largePages struct {
	httpapi.Attempts

	size int
}

func (p largePages) Page(context.Context, keys.Identity, attempts.PageRequest) (attempts.Page, error) {
	return attempts.Page{Questions: [][]byte{[]byte(`{"prompt":"` + strings.Repeat("x", p.size) + `"}`)}, Total: 1}, nil
}

// largeList is a catalogue whose list has so many bytes.
type largeList struct {
	httpapi.Catalog

	size int
}

func (largeList) Ready() bool { return true }

func (l largeList) OnChange(changed func([]read.ExamEntry)) {
	changed([]read.ExamEntry{{Key: "a", Country: "Spain", CountryCode: "ES", JSON: []byte(`{"name":"` + strings.Repeat("x", l.size) + `"}`)}})
}

// TestResponsesThatAreNotReadTakeAQuarterOfTheMemory: a client asks for large responses and reads none. Another client is served, and
// the memory is free when the connections have ended.
func TestResponsesThatAreNotReadTakeAQuarterOfTheMemory(t *testing.T) {
	t.Parallel()
	const size, memory, asked = 100 << 10, 4 << 20, 20
	page := strings.Replace(openLine, "open", "questions", 1) + mine + withLength(openBody)
	for name, request := range map[string]string{
		"pages":             page,
		"lists in an order": strings.Replace(listLine, "list", "list?country_code=es", 1) + mine + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parts := func(deps *httpapi.Deps) { deps.Attempts, deps.Catalog = largePages{size: size}, largeList{size: size} }
			httpapi.InBubble(t, httpapi.Config{MaxBodyMemory: memory}, parts, func(t *testing.T, b *httpapi.Bubble) {
				t.Helper()
				for range asked {
					check.NoError(t, <-send(b.Dial(), request))
				}
				synctest.Wait()
				if held := b.Metric("examprep_http_body_memory_bytes", nil); held > memory/4 || held < memory/4-2*size {
					t.Errorf("%v bytes are held, want a quarter of %d", held, memory)
				}
				ask := func(request string) int {
					conn := b.Dial()
					defer conn.Close()
					send(conn, request)
					got, err := http.ReadResponse(bufio.NewReader(conn), nil)
					check.NoError(t, err)
					_, err = io.Copy(io.Discard, got.Body)
					check.NoError(t, err)
					_ = got.Body.Close()
					return got.StatusCode
				}
				check.Equal(t, ask(request), http.StatusServiceUnavailable, "status of one more response of the same client")
				other := strings.ReplaceAll(request, " KEY", " "+httpapi.BubbleOtherKey)
				check.Equal(t, ask(other), http.StatusOK, "status of a response of another client")
				b.HangUp()
				synctest.Wait()
				check.Equal(t, b.Metric("examprep_http_body_memory_bytes", nil), 0, "bytes held when the connections have ended")
				check.Equal(t, ask(request), http.StatusOK, "status of a response when there is memory again")
			})
		})
	}
}
