package httpapi_test

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit/check"
)

const guessedRequest = "GET /v1/exam-prep/list HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer guessed\r\n\r\n"

// refusalsPerSecond is production's limit of refusals.
const refusalsPerSecond = 2000

// aRefusal is what a flood gets: the status, the time until the answer, and whether it announces the end of its connection.
type aRefusal struct {
	status int
	after  time.Duration
	closes bool
}

// flood sends a request on each of so many connections at once, and counts the answers.
func flood(t *testing.T, b *httpapi.Bubble, request string, connections int) map[aRefusal]int {
	t.Helper()
	answers := make(chan aRefusal)
	began := time.Now()
	for range connections {
		conn := b.Dial()
		send(conn, request)
		go func() {
			defer conn.Close()
			got, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				answers <- aRefusal{}
				return
			}
			_, _ = io.Copy(io.Discard, got.Body)
			answers <- aRefusal{got.StatusCode, time.Since(began), got.Close}
		}()
	}
	counted := map[aRefusal]int{}
	for range connections {
		counted[<-answers]++
	}
	return counted
}

// expectCounted compares how often each answer came.
func expectCounted(t *testing.T, got, want map[aRefusal]int, what string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func expectHeld(t *testing.T, b *httpapi.Bubble, want float64) {
	t.Helper()
	check.Equal(t, b.Metric("examprep_http_refusals_held_total", nil), want, "refusals that waited")
}

// TestAFloodOfRefusalsWaits: one refusal a second is answered at once, one waits for its turn, and the others lose their
// connection after a second. A client with a valid key notices nothing.
func TestAFloodOfRefusalsWaits(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{RefusalsPerSecond: 1}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		expectCounted(t, flood(t, b, guessedRequest, 1), map[aRefusal]int{{http.StatusUnauthorized, 0, false}: 1}, "the first refusal")
		expectHeld(t, b, 0)
		const passed = 100 * time.Millisecond // or the second turn would come as the others end
		<-time.After(passed)
		expectCounted(t, flood(t, b, guessedRequest, 29), map[aRefusal]int{
			{http.StatusUnauthorized, time.Second - passed, false}: 1, {http.StatusUnauthorized, time.Second, true}: 28,
		}, "refusals at once")
		expectHeld(t, b, 29)
		expectCounted(t, flood(t, b, listLine+mine+"\r\n", 20), map[aRefusal]int{{http.StatusOK, 0, false}: 20}, "answers to a good key")
		expectHeld(t, b, 29)
	})
}

// TestSoManyRefusalsAreSentAtOnce has production's limit: its refusals take no time, and the next waits for its turn.
func TestSoManyRefusalsAreSentAtOnce(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		conn, began := b.Dial(), time.Now()
		answers := bufio.NewReader(conn)
		for n := range refusalsPerSecond + 1 {
			send(conn, guessedRequest)
			got, err := http.ReadResponse(answers, nil)
			check.NoError(t, err)
			_, _ = io.Copy(io.Discard, got.Body)
			_ = got.Body.Close()
			if got.StatusCode != http.StatusUnauthorized || got.Close {
				t.Fatalf("refusal %d: %d, closing: %v", n+1, got.StatusCode, got.Close)
			}
			if n < refusalsPerSecond && time.Since(began) > 0 {
				t.Fatalf("refusal %d comes after %s", n+1, time.Since(began))
			}
		}
		check.Equal(t, time.Since(began), time.Second/refusalsPerSecond, "time until the refusal beyond the limit")
		expectHeld(t, b, 1)
	})
}

// TestOnlyStrangersAreHeld: a client with a valid key, or one that the gate does not refuse, never waits.
func TestOnlyStrangersAreHeld(t *testing.T) {
	t.Parallel()
	const host = " HTTP/1.1\r\nHost: x\r\n"
	for _, c := range []struct {
		name, request string
		status        int
		ends          bool // its connection ends for another reason
	}{
		{"a key without an allowance left", "GET /v1/exam-prep/list" + host + "Authorization: Bearer " + httpapi.BubbleExhausted + "\r\n\r\n", http.StatusTooManyRequests, false},
		{"an unknown path", "GET /nowhere" + host + "\r\n", http.StatusNotFound, false},
		{"a method that is not answered", "DELETE /docs" + host + "\r\n", http.StatusMethodNotAllowed, false},
		{"no HTTP", "nonsense\r\n\r\n", http.StatusBadRequest, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			httpapi.InBubble(t, httpapi.Config{RefusalsPerSecond: 1}, nil, func(t *testing.T, b *httpapi.Bubble) {
				t.Helper()
				expectCounted(t, flood(t, b, c.request, 10), map[aRefusal]int{{c.status, 0, c.ends}: 10}, "answers")
				expectHeld(t, b, 0)
			})
		})
	}
}

// theirProxies are networks with the address of a Bubble's clients.
func theirProxies() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

func TestTrustedProxiesAreNotHeld(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{RefusalsPerSecond: 1, TrustedProxies: theirProxies()}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		expectCounted(t, flood(t, b, guessedRequest, 10), map[aRefusal]int{{http.StatusUnauthorized, 0, false}: 10}, "refusals of a trusted proxy")
		expectHeld(t, b, 0)
	})
}

// ask sends a request with a bad key on a connection of its own.
func ask(t *testing.T, b *httpapi.Bubble) (conn net.Conn, status int) {
	t.Helper()
	conn = b.Dial()
	send(conn, guessedRequest)
	return conn, readResponse(t, bufio.NewReader(conn), http.MethodGet).status
}

func TestOneAddressHasSoManyConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		trusted []netip.Prefix
		status  int
	}{
		{"a client", nil, http.StatusServiceUnavailable},
		{"a trusted proxy", theirProxies(), http.StatusUnauthorized},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			httpapi.InBubble(t, httpapi.Config{MaxConnectionsPerAddress: 2, TrustedProxies: c.trusted}, nil, func(t *testing.T, b *httpapi.Bubble) {
				t.Helper()
				first, _ := ask(t, b)
				_, _ = ask(t, b)
				_, status := ask(t, b)
				check.Equal(t, status, c.status, "status of the third connection")
				_ = first.Close()
				synctest.Wait()
				_, status = ask(t, b)
				check.Equal(t, status, http.StatusUnauthorized, "status of the next one when a place is free")
			})
		})
	}
}

// TestRefusedClientsThatGoOnSendingMakeRoom: each takes half a place. They have all places, and hold them unread, until a new client
// connects.
func TestRefusedClientsThatGoOnSendingMakeRoom(t *testing.T) {
	t.Parallel()
	const places = 3
	httpapi.InBubble(t, httpapi.Config{MaxConnections: places}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		for range 2*places - 1 {
			synctest.Wait() // those before linger
			conn := b.Dial()
			go func() {
				piece := make([]byte, 64<<10)
				head := openLine + "Host: x\r\nAuthorization: Bearer guessed\r\nContent-Length: 1000000000\r\n\r\n"
				for err := <-send(conn, head); err == nil; {
					_, err = conn.Write(piece)
				}
			}()
			readResponse(t, bufio.NewReader(conn), http.MethodPost).expect(t, http.StatusUnauthorized, "a refused client")
		}
		_, status := ask(t, b)
		check.Equal(t, status, http.StatusServiceUnavailable, "status of a new client while the others are read")
		<-time.After(5 * time.Second) // now they are held, unread
		_, status = ask(t, b)
		check.Equal(t, status, http.StatusUnauthorized, "status of a new client when they are held")
	})
}

// refusalStays is how long a connection too many stays open, so that its client can read.
const refusalStays = 250 * time.Millisecond

func TestOneConnectionTooManyIsAnswered(t *testing.T) {
	t.Parallel()
	httpapi.InBubble(t, httpapi.Config{MaxConnections: 2}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		for range 2 {
			keepPlace(t, b)
		}
		synctest.Wait()
		began := time.Now()
		answers := bufio.NewReader(b.Dial()) // it says nothing
		got := readResponse(t, answers, http.MethodGet)
		if id := got.header.Get("X-Request-Id"); uuid.Validate(id) != nil {
			t.Errorf("the refusal bears the id %s", id)
		}
		if got.status != http.StatusServiceUnavailable || got.code(t) != "service_unavailable" || got.header.Get("Retry-After") == "" {
			t.Errorf("%d %s %v", got.status, got.body, got.header)
		}
		expectEnd(t, answers, began, refusalStays)
		check.Equal(t, b.Metric("examprep_http_connections_refused_total", nil), 1, "refused connections that are counted")
	})
}

// TestEachOfManyConnectionsTooManyIsAnswered: fifty of them stay open to be read; the others are closed once they are answered.
func TestEachOfManyConnectionsTooManyIsAnswered(t *testing.T) {
	t.Parallel()
	const many, stay = 400, 50
	httpapi.InBubble(t, httpapi.Config{MaxConnections: 1}, nil, func(t *testing.T, b *httpapi.Bubble) {
		t.Helper()
		keepPlace(t, b)
		synctest.Wait()
		ends := make(chan aRefusal)
		began := time.Now()
		for range many {
			conn := b.Dial()
			go func() {
				answers := bufio.NewReader(conn)
				got, err := http.ReadResponse(answers, nil)
				if err == nil {
					_, _ = io.Copy(io.Discard, answers) // with the body
					ends <- aRefusal{got.StatusCode, time.Since(began), got.Close}
					return
				}
				ends <- aRefusal{}
			}()
		}
		counted := map[aRefusal]int{}
		for range many {
			counted[<-ends]++
		}
		expectCounted(t, counted, map[aRefusal]int{
			{http.StatusServiceUnavailable, 0, true}: many - stay, {http.StatusServiceUnavailable, refusalStays, true}: stay,
		}, "when connections too many end")
	})
}
