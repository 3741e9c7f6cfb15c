package send

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// A zone is a name server on loopback. As a hostile one can, it can give another answer each time that it is asked for a name.
type zone struct {
	conn net.PacketConn

	mu sync.Mutex
	// answers of each name, in lower case and without the dot at its end: one for each time that it is asked, of which
	// the last goes on. A name without a dot is answered in any search domain.
	answers map[string][]answerSet
	asked   map[question]int
}

// answerSet is one answer: addresses, perhaps behind a chain of aliases, or a code of failure.
type answerSet struct {
	alias     string
	addresses []string
	code      dnsmessage.RCode
}

type question struct {
	name string
	kind dnsmessage.Type
}

func addresses(all ...string) []answerSet { return []answerSet{{addresses: all}} }

func newZone(t testing.TB, answers map[string][]answerSet) *zone {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	check.NoError(t, err)
	z := &zone{conn: conn, answers: answers, asked: map[question]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		z.serve(t)
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return z
}

func (z *zone) serve(t testing.TB) {
	t.Helper()
	buffer := make([]byte, 4096)
	for {
		n, from, err := z.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		answer, err := z.answer(buffer[:n])
		if err != nil {
			t.Errorf("the name server was asked nonsense: %v", err)
			continue
		}
		_, _ = z.conn.WriteTo(answer, from)
	}
}

// resolver asks this zone alone. It asks each question once, however long the answer takes: a repeated one would get the next
// answer.
func (z *zone) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(context.WithoutCancel(ctx), "udp", z.conn.LocalAddr().String())
		if err != nil {
			return nil, err
		}
		packets, _ := conn.(*net.UDPConn)
		return timeless{packets}, nil
	}}
}

// timeless is a connection without deadlines.
type timeless struct{ *net.UDPConn }

// SetDeadline does nothing.
func (timeless) SetDeadline(time.Time) error { return nil }

func (z *zone) next(q question) (answerSet, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	name := strings.ToLower(strings.TrimSuffix(q.name, "."))
	all, known := z.answers[name]
	if !known {
		all, known = z.answers[strings.SplitN(name, ".", 2)[0]]
	}
	if !known {
		return answerSet{code: dnsmessage.RCodeNameError}, false
	}
	q.name = name
	turn := min(z.asked[q], len(all)-1)
	z.asked[q]++
	return all[turn], true
}

func (z *zone) answer(query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	asked, err := parser.Question()
	if err != nil {
		return nil, err
	}
	set, _ := z.next(question{asked.Name.String(), asked.Type})
	message := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true, RCode: set.code,
		},
		Questions: []dnsmessage.Question{asked},
	}
	owner := asked.Name
	if set.alias != "" {
		target := dnsmessage.MustNewName(set.alias)
		message.Answers = append(message.Answers, resource(owner, dnsmessage.TypeCNAME, &dnsmessage.CNAMEResource{CNAME: target}))
		owner = target
	}
	for _, text := range set.addresses {
		switch address := netip.MustParseAddr(text); {
		case address.Is4() && asked.Type == dnsmessage.TypeA:
			message.Answers = append(message.Answers, resource(owner, asked.Type, &dnsmessage.AResource{A: address.As4()}))
		case address.Is6() && asked.Type == dnsmessage.TypeAAAA:
			message.Answers = append(message.Answers, resource(owner, asked.Type, &dnsmessage.AAAAResource{AAAA: address.As16()}))
		}
	}
	return message.Pack()
}

func resource(owner dnsmessage.Name, kind dnsmessage.Type, body dnsmessage.ResourceBody) dnsmessage.Resource {
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: owner, Type: kind, Class: dnsmessage.ClassINET, TTL: 0}, Body: body,
	}
}

// A lookout is a sender together with what sees each connection that it makes: a hook behind its guard, and listeners
// on one port of both loopback addresses.
type lookout struct {
	*Sender
	port      string
	listeners []net.Listener

	mu     sync.Mutex
	dialed []string
}

var errNotLoopback = errors.New("the tests connect to loopback alone")

// newLookout watches a sender that asks zone for names and may go to allowed.
func newLookout(t testing.TB, z *zone, allowed []netip.Prefix, authority []byte) *lookout {
	t.Helper()
	s, err := New(Ranges{Declared: allowed}, authority, testkit.Patience, time.Now)
	check.NoError(t, err)
	l := &lookout{Sender: s}
	s.declared.dialer.Resolver = z.resolver()
	guarded := s.declared.dialer.Control
	s.declared.dialer.Control = func(network, address string, c syscall.RawConn) error {
		if err := guarded(network, address, c); err != nil {
			return err
		}
		l.mu.Lock()
		l.dialed = append(l.dialed, address)
		l.mu.Unlock()
		if !netip.MustParseAddrPort(address).Addr().IsLoopback() {
			return errNotLoopback
		}
		return nil
	}
	l.listen(t)
	return l
}

// listen takes one port of all loopback addresses. Nothing accepts: what connects is kept by the kernel, in order.
func (l *lookout) listen(t testing.TB) {
	t.Helper()
	listen := func(network, address string) net.Listener {
		listener, err := new(net.ListenConfig).Listen(t.Context(), network, address)
		check.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		l.listeners = append(l.listeners, listener)
		return listener
	}
	_, l.port, _ = net.SplitHostPort(listen("tcp4", "127.0.0.1:0").Addr().String())
	if probe, err := new(net.ListenConfig).Listen(t.Context(), "tcp6", "[::1]:0"); err == nil {
		_ = probe.Close()
		listen("tcp6", "[::1]:"+l.port)
	} else {
		t.Logf("there is no IPv6 loopback to watch: %v", err)
	}
}

// connections are the addresses that were connected to since it was last asked.
func (l *lookout) connections() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	dialed := l.dialed
	l.dialed = nil
	return dialed
}

// checkUntouched fails if the listeners have had a connection: the first of each must be that of checkUntouched itself.
func (l *lookout) checkUntouched(t testing.TB) {
	t.Helper()
	for _, listener := range l.listeners {
		own, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		check.NoError(t, err)
		first, err := listener.Accept()
		check.NoError(t, err)
		if first.RemoteAddr().String() != own.LocalAddr().String() {
			t.Errorf("%s was connected to, from %s", listener.Addr(), first.RemoteAddr())
		}
		_, _ = first.Close(), own.Close()
	}
}

// checkConnections fails unless exactly these addresses were connected to, on any port and in any order.
func (l *lookout) checkConnections(t testing.TB, want ...string) {
	t.Helper()
	got := l.connections()
	for i, address := range got {
		got[i], _, _ = net.SplitHostPort(address)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("connected to %q, want %q", got, want)
	}
}
