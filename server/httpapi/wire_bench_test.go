package httpapi

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp/fasthttputil"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// noPaper is a mock-exam engine without any paper: its refusals cost nothing but what they take to ask for.
type noPaper struct{ Attempts }

func (noPaper) Page(context.Context, keys.Identity, attempts.PageRequest) (attempts.Page, error) {
	return attempts.Page{Total: 1}, nil
}

// BenchmarkConnection is requests on one connection in memory, from the client's first byte to the answer's last: with
// what fasthttp and a connection (connection.go) do, and without a network.
func BenchmarkConnection(b *testing.B) {
	const head = "Host: x\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: */*\r\nContent-Type: application/json\r\n" +
		"Authorization: Bearer service_00000000000000000000000000000000000000005176df86\r\n"
	get := "GET /v1/exam-prep/xx-sample/overview HTTP/1.1\r\n" + head
	post := func(size int) string {
		body := `{"paper_id":"xx-sample-2023"}`
		body += strings.Repeat(" ", size-len(body))
		return "POST /v1/exam-prep/xx-sample/mock-exams/questions HTTP/1.1\r\n" + head + "Content-Length: " + strconv.Itoa(size) + "\r\n\r\n" + body
	}
	for _, c := range []struct{ name, sent string }{
		{"get", get + "\r\n"},
		{"get with a cookie of 2 KB", get + "Cookie: " + strings.Repeat("a", 2000) + "\r\n\r\n"},
		{"post of 100 B", post(100)},
		{"post of 32 KiB", post(32 << 10)},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkConnection(b, []byte(c.sent)) })
	}
}

func benchmarkConnection(b *testing.B, sent []byte) {
	b.Helper()
	server := New(Config{}, Deps{
		Gate: openGate{}, Catalog: oneExam{document: read.Document{JSON: make([]byte, 4096), ETag: `"0123456789abcdef"`}},
		Attempts: noPaper{}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	wire := fasthttputil.NewInmemoryListener()
	stop := testkit.Run(b, func(ctx context.Context) error { return server.Serve(ctx, wire) })
	defer stop()
	client, err := wire.Dial()
	check.NoError(b, err)
	defer func() { _ = client.Close() }()
	answer := make([]byte, 16<<10)
	size := roundTrip(b, client, sent, answer, 0)
	b.ReportAllocs()
	for b.Loop() {
		roundTrip(b, client, sent, answer, size)
	}
}

// roundTrip sends a request and reads its answer, of size bytes; 0: as long as its headers say. It returns the size.
func roundTrip(b *testing.B, client net.Conn, sent, answer []byte, size int) int {
	b.Helper()
	_, err := client.Write(sent)
	check.NoError(b, err)
	for n := 0; size == 0 || n < size; {
		read, err := client.Read(answer[n:])
		check.NoError(b, err)
		n += read
		if size == 0 {
			size = answerSize(b, string(answer[:n]))
		}
	}
	return size
}

// answerSize is how long the answer is that begins so; 0 where its headers are not whole.
func answerSize(b *testing.B, beginning string) int {
	b.Helper()
	head, _, whole := strings.Cut(beginning, "\r\n\r\n")
	if !whole {
		return 0
	}
	if !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		b.Fatal(beginning)
	}
	_, length, _ := strings.Cut(head, "Content-Length: ")
	length, _, _ = strings.Cut(length, "\r\n")
	body, err := strconv.Atoi(length)
	check.NoError(b, err)
	return len(head) + 4 + body
}
