package wire_test

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"examprep.dev/hack/record/wire"
	"examprep.dev/server/testkit/check"
)

func serve(t *testing.T, answer func(conn *net.TCPConn, reader *bufio.Reader)) string {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	check.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := listener.AcceptTCP()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		answer(conn, bufio.NewReader(conn))
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return listener.Addr().String()
}

// readHead reads up to an empty line and returns the x-request-id.
func readHead(reader *bufio.Reader) (id string) {
	for {
		line, err := reader.ReadString('\n')
		if err != nil || line == "\r\n" {
			return id
		}
		if value, found := strings.CutPrefix(line, "X-Request-Id: "); found {
			id = strings.TrimSpace(value)
		}
	}
}

const (
	request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	ok      = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nhi"
)

func TestPlayFindsOutHowAConnectionEnds(t *testing.T) {
	write := func(conn *net.TCPConn, text string) { _, _ = io.WriteString(conn, text) }
	echo := func(conn *net.TCPConn, reader *bufio.Reader) {
		write(conn, "HTTP/1.1 404 Not Found\r\nx-request-id: "+readHead(reader)+"\r\nContent-Length: 0\r\n\r\n")
	}
	for name, c := range map[string]struct {
		answer    func(conn *net.TCPConn, reader *bufio.Reader)
		change    func(*wire.Conversation)
		end       wire.End
		responses int
	}{
		"kept": {answer: func(conn *net.TCPConn, reader *bufio.Reader) {
			readHead(reader)
			write(conn, ok)
			echo(conn, reader)
		}, end: wire.Kept, responses: 1},
		"closed as announced": {answer: func(conn *net.TCPConn, reader *bufio.Reader) {
			readHead(reader)
			write(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}, end: wire.Closed, responses: 1},
		"closed without a response": {answer: func(_ *net.TCPConn, reader *bufio.Reader) { readHead(reader) }, end: wire.Closed},
		"reset": {answer: func(conn *net.TCPConn, reader *bufio.Reader) {
			readHead(reader)
			_ = conn.SetLinger(0)
		}, end: wire.Reset},
		"cut": {answer: func(conn *net.TCPConn, reader *bufio.Reader) {
			readHead(reader)
			write(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi")
		}, end: wire.Cut, responses: 1},
		"malformed": {answer: func(conn *net.TCPConn, reader *bufio.Reader) {
			readHead(reader)
			write(conn, "hello\r\n\r\n")
		}, end: wire.Malformed},
		"silent": {
			answer: func(_ *net.TCPConn, reader *bufio.Reader) { _, _ = io.Copy(io.Discard, reader) },
			change: func(c *wire.Conversation) { c.Limit = 2 * time.Second }, end: wire.Silent,
		},
		"a response that nobody expects": {answer: func(conn *net.TCPConn, reader *bufio.Reader) {
			readHead(reader)
			write(conn, ok+ok)
			echo(conn, reader)
		}, end: wire.Kept, responses: 2},
		"HEAD": {answer: func(conn *net.TCPConn, reader *bufio.Reader) {
			readHead(reader)
			write(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
			echo(conn, reader)
		}, change: func(c *wire.Conversation) { c.Head = true }, end: wire.Kept, responses: 1},
		"half closed": {answer: func(conn *net.TCPConn, reader *bufio.Reader) {
			_, _ = io.Copy(io.Discard, reader)
			write(conn, ok)
		}, change: func(c *wire.Conversation) { c.HalfClose = true }, end: wire.Closed, responses: 1},
		"left": {
			answer: func(_ *net.TCPConn, reader *bufio.Reader) { _, _ = io.Copy(io.Discard, reader) },
			change: func(c *wire.Conversation) { c.Leave = true }, end: wire.Left,
		},
	} {
		t.Run(name, func(t *testing.T) {
			conversation := wire.Conversation{
				Source: netip.MustParseAddr("127.0.0.2"), Segments: []wire.Segment{{Bytes: []byte(request)}}, Responses: 1,
			}
			if c.change != nil {
				c.change(&conversation)
			}
			outcome, err := wire.Play(t.Context(), serve(t, c.answer), conversation)
			check.NoError(t, err)
			if outcome.End != c.end || len(outcome.Responses) != c.responses {
				t.Errorf("%s after %d responses, want %s after %d", outcome.End, len(outcome.Responses), c.end, c.responses)
			}
		})
	}
}

func TestPlaySendsABodyOnlyAfterContinue(t *testing.T) {
	for name, c := range map[string]struct {
		interim string
		want    string
	}{
		"continue": {"HTTP/1.1 100 Continue\r\n\r\n", "body"},
		"refused":  {"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			received := make(chan string, 1)
			address := serve(t, func(conn *net.TCPConn, reader *bufio.Reader) {
				readHead(reader)
				_, _ = io.WriteString(conn, c.interim)
				if c.want == "" {
					_ = conn.CloseWrite()
				}
				body := make([]byte, 4)
				n, _ := io.ReadFull(reader, body)
				received <- string(body[:n])
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			})
			_, err := wire.Play(t.Context(), address, wire.Conversation{
				Source: netip.MustParseAddr("127.0.0.1"), Responses: 1,
				Segments: []wire.Segment{{Bytes: []byte(request)}, {Bytes: []byte("body"), AfterContinue: true}},
			})
			check.NoError(t, err)
			check.Equal(t, <-received, c.want, "the server received")
		})
	}
}

func TestResponseKeepsSpellingAndRepeatedHeaders(t *testing.T) {
	address := serve(t, func(conn *net.TCPConn, reader *bufio.Reader) {
		readHead(reader)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Fine\r\nx-a: 1\r\nX-A:  2 \r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\nT: u\r\n\r\n")
	})
	outcome, err := wire.Play(t.Context(), address, wire.Conversation{
		Source: netip.MustParseAddr("127.0.0.1"), Segments: []wire.Segment{{Bytes: []byte(request)}}, Responses: 1,
	})
	check.NoError(t, err)
	got := outcome.Responses[0]
	if got.Status != "HTTP/1.1 200 Fine" || string(got.Body) != "abc" || outcome.End != wire.Closed {
		t.Errorf("%q, body %q, %s", got.Status, got.Body, outcome.End)
	}
	if got.Headers[0] != (wire.Header{Name: "x-a", Value: "1"}) || got.Headers[1] != (wire.Header{Name: "X-A", Value: "2"}) {
		t.Errorf("headers %q", got.Headers)
	}
}
