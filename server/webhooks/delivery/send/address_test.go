package send

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/net/dns/dnsmessage"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// hostileURLs are refused at registration. PORT stands for a port on which loopback listens.
func hostileURLs() []string {
	long := strings.Repeat("a", 2048)
	return []string{
		// Loopback and other addresses of this machine.
		"https://127.0.0.1:PORT/", "https://127.255.255.254:PORT/", "https://0.0.0.0:PORT/", "https://0.1.2.3:PORT/",
		"https://[::1]:PORT/", "https://[::]:PORT/", "https://[0:0:0:0:0:0:0:1]:PORT/", "https://[0000::0001]:PORT/",
		"https://localhost:PORT/", "https://LocalHost:PORT/", "https://localhost.:PORT/", "https://x.localhost:PORT/",
		// Networks behind the firewall.
		"https://10.0.0.1:PORT/", "https://172.16.0.1:PORT/", "https://192.168.0.1:PORT/", "https://100.64.0.1:PORT/",
		"https://[fc00::1]:PORT/", "https://[fd12:3456:789a::1]:PORT/", "https://[fec0::1]:PORT/", "https://[fe80::1]:PORT/",
		"https://198.18.0.1:PORT/", "https://192.0.0.8:PORT/", "https://169.254.1.1:PORT/",
		// Services of clouds that give out credentials.
		"https://169.254.169.254/latest/meta-data/", "https://[fd00:ec2::254]/", "https://168.63.129.16/",
		"https://100.100.100.200/", "https://192.0.0.192/", "https://[::ffff:169.254.169.254]/", "https://169.254.170.2/",
		"https://[fd20:ce::254]/", "https://2852039166/", "https://0xa9fea9fe/", "https://0251.0376.0251.0376/",
		// Multicast, reserved and documentation addresses.
		"https://224.0.0.1:PORT/", "https://239.255.255.250:PORT/", "https://255.255.255.255:PORT/", "https://240.0.0.1:PORT/",
		"https://[ff02::1]:PORT/", "https://[100::1]:PORT/", "https://192.0.2.1:PORT/", "https://[2001:db8::1]:PORT/",
		// IPv4 in the clothes of IPv6.
		"https://[::ffff:127.0.0.1]:PORT/", "https://[::ffff:7f00:1]:PORT/", "https://[::127.0.0.1]:PORT/",
		"https://[::ffff:0:127.0.0.1]:PORT/", "https://[64:ff9b::7f00:1]:PORT/", "https://[64:ff9b::127.0.0.1]:PORT/",
		"https://[64:ff9b:1::a00:1]:PORT/", "https://[2002:7f00:1::1]:PORT/", "https://[2002:a00:1::]:PORT/",
		"https://[2001:0:a00:1::]:PORT/", "https://[::FFFF:10.0.0.1]:PORT/", "https://[0:0:0:0:0:ffff:127.0.0.1]:PORT/", "https://[2002:7f00:1::]:PORT/",
		// Zones.
		"https://[fe80::1%25lo]:PORT/", "https://[::1%25lo]:PORT/", "https://[2606:4700::1111%25eth0]:PORT/", "https://[::1%lo]:PORT/",
		// Numbers that some readers take for an address.
		"https://2130706433:PORT/", "https://0x7f000001:PORT/", "https://017700000001:PORT/", "https://127.1:PORT/",
		"https://127.0.1:PORT/", "https://0177.0.0.1:PORT/", "https://0x7f.0.0.1:PORT/", "https://0x7f.1:PORT/", "https://0x7F.0x0.0x0.0x1:PORT/",
		"https://00000177.0.0.1:PORT/", "https://127.0.0.1.:PORT/", "https://0:PORT/", "https://10.1:PORT/", "https://127.0.0.01:PORT/",
		"https://127.0.0.256:PORT/", "https://4294967296:PORT/", "https://127.0.0.1.0x0:PORT/",
		// Digits and dots of other scripts, and escapes.
		"https://１２７.0.0.1:PORT/", "https://①②⑦.⓪.⓪.①:PORT/", "https://127。0。0。1:PORT/", "https://ⓛocalhost:PORT/",
		"https://%31%32%37.0.0.1:PORT/", "https://127%2e0%2e0%2e1:PORT/", "https://%6cocalhost:PORT/", "https://loc\u00adalhost:PORT/",
		"https://127.0.0.1%00.example.com:PORT/", "https://[%3a%3a1]:PORT/",
		// Readers disagree where the host is.
		"https://receiver.example.com@127.0.0.1:PORT/", "https://user:password@receiver.example.com/", "https://@127.0.0.1:PORT/",
		"https://127.0.0.1:PORT\\@receiver.example.com/", "https://receiver.example.com\\@127.0.0.1:PORT/",
		"https://receiver.example.com#@127.0.0.1:PORT/", "https://receiver.example.com:443@127.0.0.1:PORT/",
		"https://127.0.0.1:PORT#.example.com/", "https:\\\\127.0.0.1:PORT\\", "https:/127.0.0.1:PORT/", "https:127.0.0.1:PORT",
		"https:///127.0.0.1:PORT/", "https://[::1]receiver.example.com:PORT/", "https://[127.0.0.1]:PORT/", "https://::1:PORT/",
		"https://[::1:PORT/", "https://127.0.0.1 receiver.example.com:PORT/",
		// White space and control characters.
		" https://127.0.0.1:PORT/", "https://127.0.0.1\t:PORT/", "https://receiver.example.com\r\nHost: 127.0.0.1/", "https://\n127.0.0.1:PORT/",
		"ht\ntps://127.0.0.1:PORT/", "https://receiver.example.com/\x00", "https://127.0.0.1:PORT/ ", "https://127.0.0.1:PORT/\u00a0",
		// Other schemes.
		"http://127.0.0.1:PORT/", "http://receiver.example.com/", "ftp://127.0.0.1:PORT/", "file:///etc/passwd", "gopher://127.0.0.1:PORT/_x",
		"unix:///var/run/docker.sock", "javascript:alert(1)", "//127.0.0.1:PORT/", "127.0.0.1:PORT", "", "https://", "https:///path",
		"dict://127.0.0.1:PORT/", "httpss://127.0.0.1:PORT/",
		// Ports that are none, and sizes.
		"https://receiver.example.com:0/", "https://receiver.example.com:65536/", "https://receiver.example.com:-1/",
		"https://receiver.example.com:+443/", "https://receiver.example.com:４４３/", "https://127.0.0.1:000PORT/", "https://receiver.example.com/" + long,
		"https://" + long + ".example.com/",
	}
}

func TestHostileURLIsRefusedAtRegistrationAndNotDialled(t *testing.T) {
	t.Parallel()
	l := newLookout(t, newZone(t, nil), nil, nil)
	g := webhooks.NewAddressPolicy(nil)
	for _, spelling := range hostileURLs() {
		spelling = strings.Replace(spelling, "PORT", l.port, 1)
		t.Run(fmt.Sprintf("%.60q", spelling), func(t *testing.T) {
			var invalid *webhooks.ValidationError
			if err := g.CheckURL(spelling); !errors.As(err, &invalid) || invalid.Field != "url" {
				t.Errorf("registration: got %v, want a ValidationError of url", err)
			}
			// Dialling refuses by itself, whatever is stored.
			if came := l.Post(t.Context(), Request{Managed: true, URL: spelling, EventID: uuid.New(), Body: []byte("{}")}); came.Delivered() || came.Status != 0 {
				t.Errorf("came to %+v", came)
			}
			l.checkConnections(t)
		})
	}
	l.checkUntouched(t)
}

// hostileNames returns names that can be registered, each with the answers of a hostile name server.
func hostileNames() map[string][]answerSet {
	const public, other = "93.184.216.34", "2606:2800:220:1::1"
	many := make([]string, 0, 24)
	for i := range 24 {
		many = append(many, fmt.Sprintf("10.0.0.%d", i+1))
	}
	return map[string][]answerSet{
		"loopback.example.com": addresses("127.0.0.1"), "loopback6.example.com": addresses("::1"), "both.example.com": addresses("127.0.0.1", "::1"),
		"loopback-far.example.com": addresses("127.8.8.8"), "unspecified.example.com": addresses("0.0.0.0"), "unspecified6.example.com": addresses("::"),
		"private-10.example.com": addresses("10.1.2.3"), "private-172.example.com": addresses("172.31.255.254"),
		"private-192.example.com": addresses("192.168.1.1"), "local6.example.com": addresses("fd00::1"), "site-local.example.com": addresses("fec0::1"),
		"link-local.example.com": addresses("169.254.10.10"), "link-local6.example.com": addresses("fe80::1"), "cgnat.example.com": addresses("100.64.0.1"),
		"aws.example.com": addresses("169.254.169.254"), "aws6.example.com": addresses("fd00:ec2::254"), "azure.example.com": addresses("168.63.129.16"),
		"alibaba.example.com": addresses("100.100.100.200"), "oracle.example.com": addresses("192.0.0.192"), "gce6.example.com": addresses("fd20:ce::254"),
		"mapped.example.com": addresses("::ffff:127.0.0.1"), "mapped-aws.example.com": addresses("::ffff:169.254.169.254"),
		"compatible.example.com": addresses("::127.0.0.1"), "translated.example.com": addresses("::ffff:0:127.0.0.1"),
		"nat64.example.com": addresses("64:ff9b::7f00:1"), "nat64-local.example.com": addresses("64:ff9b:1::a00:1"),
		"6to4.example.com": addresses("2002:a00:1::1"), "teredo.example.com": addresses("2001:0:a00:1::1"), "orchid.example.com": addresses("2001:20::1"),
		"multicast.example.com": addresses("224.0.0.251"), "multicast6.example.com": addresses("ff02::fb"), "broadcast.example.com": addresses("255.255.255.255"),
		"reserved.example.com": addresses("240.0.0.1"), "benchmark.example.com": addresses("198.18.0.1"), "documentation.example.com": addresses("203.0.113.1"),
		"documentation6.example.com": addresses("2001:db8::1"), "discard.example.com": addresses("100::1"), "srv6.example.com": addresses("5f00::1"),
		"unassigned6.example.com": addresses("4000::1"), "anycast-6to4.example.com": addresses("192.88.99.1"),
		"many.example.com": addresses(many...), "alias-localhost.example.com": {{alias: "localhost.", addresses: []string{"127.0.0.1", "::1"}}},
		"alias-internal.example.com":   {{alias: "db.prod.svc.cluster.local.", addresses: []string{"10.96.0.10"}}},
		"alias-to-nothing.example.com": {{alias: "localhost."}}, "empty.example.com": addresses(), "nxdomain.example.com": {{code: dnsmessage.RCodeNameError}},
		"broken.example.com": {{code: dnsmessage.RCodeServerFailure}}, "refused.example.com": {{code: dnsmessage.RCodeRefused}},
		"changes.example.com":   {{addresses: []string{"10.0.0.1"}}, {addresses: []string{"169.254.169.254"}}, {addresses: []string{"127.0.0.1"}}},
		"1.0.0.127.nip.example": addresses("127.0.0.1"), "127.0.0.1.nip.example": addresses("127.0.0.1"), "10.0.0.1.sslip.example": addresses("10.0.0.1"),
		"a_b.example.com": addresses("127.0.0.1"), "xn--lcalhost-n4a.example.com": addresses("127.0.0.1"), "absolute.example.com": addresses("127.0.0.1"),
		"metadata": addresses("169.254.169.254"), "kubernetes": addresses("10.96.0.1"), "redis": addresses("10.96.0.12"), "ip6-loopback-host": addresses("::1"),
		// One address of these is public; the tests connect to none of those.
		"mixed-first.example.com": addresses("10.0.0.1", public), "mixed-last.example.com": addresses(public, "10.0.0.1"),
		"mixed-family.example.com": addresses(public, "::1"), "mixed-family6.example.com": addresses("127.0.0.1", other),
		"mixed-many.example.com": addresses(append(many, public)...),
		"rebinds.example.com":    {{addresses: []string{public}}, {addresses: []string{"127.0.0.1"}}},
	}
}

// urlsOf are the ways to write a name of the table.
func urlsOf(name string) []string {
	urls := []string{"https://" + name + ":PORT/hook"}
	if name == "absolute.example.com" {
		urls = append(urls, "https://absolute.example.com.:PORT/", "https://ABSOLUTE.Example.COM:PORT/", "HTTPS://absolute.example.com:PORT?x=https://1.1.1.1")
	}
	return urls
}

func TestNameOfAPrivateAddressIsNotDialled(t *testing.T) {
	t.Parallel()
	names := hostileNames()
	l := newLookout(t, newZone(t, names), nil, nil)
	g := webhooks.NewAddressPolicy(nil)
	for name, answers := range names {
		for _, spelling := range urlsOf(name) {
			t.Run(spelling, func(t *testing.T) {
				spelling = strings.Replace(spelling, "PORT", l.port, 1)
				if err := g.CheckURL(spelling); err != nil {
					t.Fatalf("registration: %v: it belongs to the other table", err)
				}
				tries := len(answers) + 1
				for range tries {
					came := l.Post(t.Context(), Request{Managed: true, URL: spelling, EventID: uuid.New(), Body: []byte("{}")})
					if want := failureOf(name); came.Status != 0 || !strings.Contains(want, came.Failure) || came.Failure == "" {
						t.Errorf("came to %+v, want %s", came, want)
					}
				}
				for _, address := range l.connections() {
					if at := netip.MustParseAddrPort(address).Addr(); g.Check(at) != nil || !strings.HasPrefix(name, "mixed-") && name != "rebinds.example.com" {
						t.Errorf("connected to %s", address)
					}
				}
			})
		}
	}
	l.checkUntouched(t)
}

// failureOf is what a try at a name of the table may come to.
func failureOf(name string) string {
	switch name[:strings.IndexAny(name+".", ".")] {
	case "empty", "nxdomain", "broken", "refused", "alias-to-nothing":
		return "dns"
	case "mixed-first", "mixed-last", "mixed-family", "mixed-family6", "mixed-many", "rebinds":
		return "refused_address connection" // by which of the addresses is tried first
	case "unspecified6", "mapped", "mapped-aws", "compatible":
		return "refused_address dns"
	default:
		return "refused_address"
	}
}

// A single loopback address stands for the public internet here; 127.0.0.1 stays what it is.
var standsForPublic = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}

// publicServer is an HTTPS server at 127.0.0.2 on a port of the lookout's, whose certificate is valid for example.com
// and the names below it.
func publicServer(t testing.TB, answer http.HandlerFunc) (server *httptest.Server, port string, authority []byte) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.2:0")
	check.NoError(t, err)
	server = httptest.NewUnstartedServer(answer)
	_ = server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return server, port, testkit.CAPEM(server)
}

func TestSenderConnectsToThePublicOneOfManyAddresses(t *testing.T) {
	t.Parallel()
	_, port, authority := publicServer(t, func(http.ResponseWriter, *http.Request) {})
	private := []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "::1"}
	l := newLookout(t, newZone(t, map[string][]answerSet{
		"first.example.com":  addresses(append([]string{"127.0.0.2"}, private...)...),
		"last.example.com":   addresses(append(private, "127.0.0.2")...),
		"middle.example.com": addresses("127.0.0.1", "127.0.0.2", "::1"),
		"alias.example.com":  {{alias: "elsewhere.example.net.", addresses: []string{"127.0.0.1", "127.0.0.2"}}},
	}), standsForPublic, authority)
	for _, name := range []string{"first", "last", "middle", "alias"} {
		t.Run(name, func(t *testing.T) {
			(&http.Client{Transport: l.declared.transport}).CloseIdleConnections()
			came := l.Post(t.Context(), Request{Managed: true, URL: "https://" + name + ".example.com:" + port, EventID: uuid.New(), Body: []byte("{}")})
			if !came.Delivered() {
				t.Errorf("came to %+v", came)
			}
			l.checkConnections(t, "127.0.0.2")
		})
	}
	l.checkUntouched(t)
}

func TestNameThatTurnsPrivateIsRefusedAtTheNextConnection(t *testing.T) {
	t.Parallel()
	_, port, authority := publicServer(t, func(http.ResponseWriter, *http.Request) {})
	for name, inward := range map[string]string{"IPv4": "127.0.0.1", "IPv6": "::1", "metadata": "169.254.169.254"} {
		t.Run(name, func(t *testing.T) {
			l := newLookout(t, newZone(t, map[string][]answerSet{"rebinds.example.com": {
				{addresses: []string{"127.0.0.2"}}, {addresses: []string{inward}}, {addresses: []string{"127.0.0.2"}},
			}}), standsForPublic, authority)
			for turn, want := range []string{"", "refused_address", ""} {
				came := l.Post(t.Context(), Request{Managed: true, URL: "https://rebinds.example.com:" + port, EventID: uuid.New(), Body: []byte("{}")})
				if came.Failure != want {
					t.Errorf("try %d came to %+v, want %q", turn+1, came, want)
				}
				(&http.Client{Transport: l.declared.transport}).CloseIdleConnections()
			}
			l.checkConnections(t, "127.0.0.2", "127.0.0.2")
			l.checkUntouched(t)
		})
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	var status int
	var target string
	var requests atomic.Int64
	_, port, authority := publicServer(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Location", target)
		w.Header().Set("Refresh", "0; url="+target)
		w.WriteHeader(status)
	})
	l := newLookout(t, newZone(t, map[string][]answerSet{"receiver.example.com": addresses("127.0.0.2")}), standsForPublic, authority)
	targets := []string{"https://127.0.0.1:" + l.port + "/", "http://169.254.169.254/latest/meta-data/", "https://[::1]:" + l.port + "/", "https://receiver.example.com:" + port + "/again", "//localhost:" + l.port, "/again", "file:///etc/passwd", "::", ""}
	statuses := []int{300, 301, 302, 303, 305, 306, 307, 308}
	for _, status = range statuses {
		for _, target = range targets {
			came := l.Post(t.Context(), Request{Managed: true, URL: "https://receiver.example.com:" + port, EventID: uuid.New(), Body: []byte("{}")})
			if came.Failure != "redirect" || came.Status != status {
				t.Errorf("%d to %s came to %+v", status, target, came)
			}
		}
	}
	check.Equal(t, requests.Load(), int64(len(statuses)*len(targets)), "requests at the receiver")
	for _, address := range l.connections() {
		if host, _, _ := net.SplitHostPort(address); host != "127.0.0.2" {
			t.Errorf("connected to %s, a target of a redirect", address)
		}
	}
	l.checkUntouched(t)
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	t.Parallel()
	const child = "EXAMPREP_TEST_BEHIND_PROXY"
	if os.Getenv(child) != "" {
		deliverBehindProxy(t)
		return
	}
	asked := make(chan string, 16)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	// net/http reads the environment once in a process, so it has to be another's.
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), child+"=1", "HTTPS_PROXY="+proxy.URL, "https_proxy="+proxy.URL, "HTTP_PROXY="+proxy.URL,
		"ALL_PROXY="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	close(asked)
	if first := <-asked; first != "CONNECT control.example.com:443" {
		t.Errorf("the environment does not lead to the proxy: it was asked %q", first)
	}
	for request := range asked {
		t.Errorf("the proxy was asked %s", request)
	}
}

func deliverBehindProxy(t *testing.T) {
	t.Helper()
	control := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://control.example.com/", nil)
	check.NoError(t, err)
	if answer, err := control.Do(request); err == nil {
		_ = answer.Body.Close()
		t.Error("the proxy did not refuse")
	}
	_, port, authority := publicServer(t, func(http.ResponseWriter, *http.Request) {})
	l := newLookout(t, newZone(t, map[string][]answerSet{"receiver.example.com": addresses("127.0.0.2")}), standsForPublic, authority)
	if came := l.Post(t.Context(), Request{Managed: true, URL: "https://receiver.example.com:" + port, EventID: uuid.New(), Body: []byte("{}")}); !came.Delivered() {
		t.Errorf("came to %+v", came)
	}
	l.checkConnections(t, "127.0.0.2")
}
