package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/catalog/read"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit/check"
)

// noCatalog was never loaded.
type noCatalog struct{ httpapi.Catalog }

func (noCatalog) Ready() bool                     { return false }
func (noCatalog) OnChange(func([]read.ExamEntry)) {}

// TestAnOutageIsLoggedOnceASecond: each operation has two lines a second, of the cause and of the request, however many requests fail.
func TestAnOutageIsLoggedOnceASecond(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{}, func(deps *httpapi.Deps) { deps.Catalog = noCatalog{} }, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		overview := strings.Replace(listLine, "list", httpapi.BubbleExam+"/overview", 1)
		for range 3 {
			for range 10 {
				for _, line := range []string{listLine, overview} {
					check.Equal(t, serve(t, b.Dial(), line+mine+"\r\n"), http.StatusServiceUnavailable, "status without a catalogue")
				}
			}
			<-time.After(time.Second)
		}
		check.Equal(t, strings.Count(b.Logs.String(), `"level":"ERROR"`), 3*2*2, "lines of level error after three seconds of an outage")
		check.Equal(t, b.Metric("examprep_http_errors_total", map[string]string{"operation": "listExams", "code": "service_unavailable"}), 30, "counted errors")
	})
}
