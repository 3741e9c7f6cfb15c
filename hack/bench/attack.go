package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The kinds of attacks.
const (
	attackSlow      = "slow"
	attackIdle      = "idle"
	attackBodies    = "bodies"
	attackHeld      = "held"
	attackMalformed = "malformed"
	attackUnknown   = "unknown"
	attackBoth      = "both"
	attackChurn     = "churn"
)

const (
	slowClients   = 1000
	idleClients   = 4_000
	bodyClients   = 32
	heldClients   = 1000
	keyClients    = 256
	keysPerSecond = 100_000
	// keysPerWrite is how many requests an attacker sends at once, as a pipeline.
	keysPerWrite = 64
	hugeBody     = 1 << 30
	// heldBody is a byte less than is announced: the server must wait for the last one.
	heldBody = 1<<20 - 1
	// openAtOnce bounds how many connections are being opened at a time.
	openAtOnce = 64
)

// attackOrder tells a process what to do; it comes as its first argument.
type attackOrder struct {
	Target string `json:"target"`
	Kind   string `json:"kind"`
	// Addresses is how many client addresses there are; 1 is the healthy client's own.
	Addresses int `json:"addresses"`
	// Key is a good key, where an attack needs one.
	Key string `json:"key"`
}

// attackResult is what an attacker prints when its standard input ends.
type attackResult struct {
	// Opened counts connections, Lost those that the server ended or refused, Sent bytes.
	Opened int64 `json:"opened"`
	Lost   int64 `json:"lost"`
	Sent   int64 `json:"sent"`
}

// attacker is the process that is hostile.
type attacker struct {
	attackOrder

	opened, lost, sent atomic.Int64
	group              sync.WaitGroup
}

// runAttack attacks until standard input ends. It prints a line when it has begun, then what it did.
func runAttack(ctx context.Context, args []string, out io.Writer) error {
	var a attacker
	if len(args) != 1 {
		return errors.New("an attack takes one argument")
	}
	if err := json.Unmarshal([]byte(args[0]), &a.attackOrder); err != nil {
		return err
	}
	raiseFileLimit()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := a.begin(ctx); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "attacking"); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	a.group.Wait()
	return json.NewEncoder(out).Encode(attackResult{a.opened.Load(), a.lost.Load(), a.sent.Load()})
}

// raiseFileLimit allows as many connections as the machine does; where it does not, the attack is smaller.
func raiseFileLimit() {
	const wanted = 65_536
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return
	}
	most := syscall.Rlimit{Cur: max(limit.Max, wanted), Max: max(limit.Max, wanted)}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &most) != nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}

// begin starts the attack's clients and returns when all have begun.
func (a *attacker) begin(ctx context.Context) error {
	var count int
	var client func(ctx context.Context, n int, conn net.Conn)
	switch a.Kind {
	case attackSlow:
		count, client = slowClients, a.sendSlowly
	case attackIdle:
		count, client = idleClients, a.idle
	case attackBodies:
		count, client = bodyClients, a.sendHuge
	case attackHeld:
		count, client = heldClients, a.hold
	case attackMalformed, attackUnknown, attackBoth, attackChurn:
		count, client = keyClients, a.guess
	default:
		return fmt.Errorf("no attack is called %q", a.Kind)
	}
	places := make(chan struct{}, openAtOnce)
	var begun sync.WaitGroup
	for n := range count {
		begun.Add(1)
		places <- struct{}{}
		a.group.Go(func() {
			first := sync.OnceFunc(func() { <-places; begun.Done() })
			defer first()
			a.run(ctx, n, client, first)
		})
	}
	begun.Wait()
	return nil
}

// run is one client: it comes back whenever its connection is ended.
func (a *attacker) run(ctx context.Context, n int, client func(context.Context, int, net.Conn), begun func()) {
	const pause = 100 * time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for ctx.Err() == nil {
		conn, err := a.dial(ctx, n)
		if err != nil {
			a.lost.Add(1)
			begun()
			wait(ctx, timer, pause)
			continue
		}
		a.opened.Add(1)
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		begun()
		client(ctx, n, conn)
		stop()
		_ = conn.Close()
		if ctx.Err() == nil && a.Kind != attackChurn {
			a.lost.Add(1)
			wait(ctx, timer, pause)
		}
	}
}

// dial connects from one of the attack's addresses.
func (a *attacker) dial(ctx context.Context, n int) (net.Conn, error) {
	dialer := net.Dialer{Timeout: answerTime}
	if a.Addresses > 1 {
		from := netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + n%a.Addresses)})
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	return dialer.DialContext(ctx, "tcp", a.Target)
}

// write counts what it writes.
func (a *attacker) write(conn net.Conn, what []byte) error {
	n, err := conn.Write(what)
	a.sent.Add(int64(n))
	return err
}

// sendSlowly sends headers (even clients) or a body (odd ones) by a byte a second.
func (a *attacker) sendSlowly(ctx context.Context, n int, conn net.Conn) {
	start := "GET /v1/exam-prep/list HTTP/1.1\r\nHost: x\r\nX-Slow: "
	if n%2 == 1 {
		start = string(a.head("submit", a.Key, "Content-Length: "+strconv.Itoa(heldBody+1)))
	}
	if a.write(conn, []byte(start)) != nil {
		return
	}
	ended := a.drain(conn)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			return
		case <-tick.C:
			if a.write(conn, []byte{'a'}) != nil {
				return
			}
		}
	}
}

// drain reads and forgets what comes, and tells when nothing comes any more.
func (a *attacker) drain(conn net.Conn) <-chan struct{} {
	ended := make(chan struct{})
	a.group.Go(func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, onlyReader{conn})
	})
	return ended
}

// onlyReader keeps io.Copy from asking for more than Read.
type onlyReader struct{ io.Reader }

// idle makes one request (every other client) or none, and then nothing.
func (a *attacker) idle(ctx context.Context, n int, conn net.Conn) {
	if n%2 == 0 {
		if a.write(conn, getRequest(a.Target, "/v1/exam-prep/list", a.Key)) != nil {
			return
		}
		text := make([]byte, answerRoom)
		n, err := conn.Read(text)
		if err != nil || !bytes.HasPrefix(text[:n], []byte("HTTP/1.1 200 ")) {
			return
		}
	}
	one := make([]byte, 4096) // what is left of the answer
	for ctx.Err() == nil {
		if _, err := conn.Read(one); err != nil {
			return
		}
	}
}

// head is the head of a POST to one of the exam's resources.
func (a *attacker) head(resource, key, length string) []byte {
	return []byte("POST /v1/exam-prep/" + examKey + "/mock-exams/" + resource + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
		"Authorization: Bearer " + key + "\r\n" + length + "\r\n\r\n")
}

// sendHuge sends a body of 1 GB, with its length or in chunks, with a good key or an unknown one, as fast as it is taken.
func (a *attacker) sendHuge(_ context.Context, n int, conn net.Conn) {
	const piece = 64 << 10
	key, length := a.Key, "Content-Length: "+strconv.Itoa(hugeBody)
	if n%2 == 1 {
		key = string(newGuesses(uint64(n)).next(true))
	}
	data := make([]byte, piece)
	for i := range data {
		data[i] = ' '
	}
	if n/2%2 == 1 {
		length = "Transfer-Encoding: chunked"
		data = append(append([]byte(strconv.FormatInt(piece, 16)+"\r\n"), data...), '\r', '\n')
	}
	if a.write(conn, a.head("submit", key, length)) != nil {
		return
	}
	a.drain(conn)
	for range hugeBody / piece {
		if a.write(conn, data) != nil {
			return
		}
	}
}

// hold sends all of a body that is as large as may be but its last byte, with an unknown key.
func (a *attacker) hold(ctx context.Context, n int, conn net.Conn) {
	key := string(newGuesses(uint64(n)).next(true))
	if a.write(conn, a.head("submit", key, "Content-Length: "+strconv.Itoa(heldBody+1))) != nil {
		return
	}
	ended := a.drain(conn)
	if a.write(conn, make([]byte, heldBody)) != nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-ended:
	}
}

// guess sends keys that do not exist, each another one, by a schedule; what the server does not take waits.
func (a *attacker) guess(ctx context.Context, _ int, conn net.Conn) {
	guesses := newGuesses(rand.Uint64())
	ended := a.drain(conn)
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	every := time.Second * keyClients * keysPerWrite / keysPerSecond
	due := time.Now()
	if a.Kind == attackChurn {
		due = due.Add(every)
	}
	for {
		if !wait(ctx, timer, time.Until(due)) || a.write(conn, guesses.batch(a.Kind)) != nil {
			return
		}
		if due = due.Add(every); a.Kind == attackChurn {
			if half, ok := conn.(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
			select {
			case <-ended:
			case <-ctx.Done():
			}
			return
		}
	}
}

// guesses makes keys that nobody was issued.
type guesses struct {
	chance *rand.ChaCha8
	key    []byte
	buffer []byte
}

func newGuesses(seed uint64) *guesses {
	var long [32]byte
	binary.LittleEndian.PutUint64(long[:], seed)
	return &guesses{chance: rand.NewChaCha8(long), key: []byte("service_")}
}

// next is a key with a check that fits, or not; it is valid until the next call.
func (g *guesses) next(wellFormed bool) []byte {
	var random [20]byte
	_, _ = g.chance.Read(random[:])
	g.key = hex.AppendEncode(g.key[:len("service_")], random[:])
	sum := crc32.ChecksumIEEE(g.key)
	if !wellFormed {
		sum++
	}
	g.key = hex.AppendEncode(g.key, binary.BigEndian.AppendUint32(nil, sum))
	return g.key
}

// batch is a pipeline of requests; it is valid until the next call.
func (g *guesses) batch(kind string) []byte {
	g.buffer = g.buffer[:0]
	for i := range keysPerWrite {
		wellFormed := kind == attackUnknown || kind != attackMalformed && i%2 == 0
		g.buffer = append(g.buffer, "GET /v1/exam-prep/list HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "...)
		g.buffer = append(append(g.buffer, g.next(wellFormed)...), "\r\n\r\n"...)
	}
	return g.buffer
}
