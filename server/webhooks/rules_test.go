package webhooks

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestAddressesOfThePrivateSideAreRefused(t *testing.T) {
	t.Parallel()
	g := NewAddressPolicy(nil)
	for _, address := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1", "169.254.169.254",
		"172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
		"198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a00:1",
		"64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:a00:1::", "2002:7f00:1::1",
		"3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
		"168.63.129.16", "100.100.100.200", "192.0.0.192", "::2", "1000::1", "4000::1", "3ffe::1", "2001:0:a00:1::", "::ffff:0:127.0.0.1",
	} {
		var refused *AddressError
		if err := g.Check(netip.MustParseAddr(address)); !errors.As(err, &refused) {
			t.Errorf("%s: allowed", address)
		}
	}
	for _, address := range []string{"1.1.1.1", "93.184.216.34", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1"} {
		if err := g.Check(netip.MustParseAddr(address)); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := NewAddressPolicy([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}).Check(netip.MustParseAddr("::ffff:10.1.2.3")); err != nil {
		t.Errorf("an allowed range: %v", err)
	}
}

func TestURLsThatCannotBeMeantAreRefusedAtRegistration(t *testing.T) {
	t.Parallel()
	g := NewAddressPolicy(nil)
	const host = "https://receiver.example.com/"
	longest := host + strings.Repeat("é", 2048-len(host))
	for _, url := range []string{
		longest + "é", "", "receiver.example.com", "http://receiver.example.com", "ftp://x.example", "https://", "https:///path", "https:x",
		"https://user:pw@receiver.example.com", "https://receiver.example.com/#f", "https://127.0.0.1/", "https://[::1]/",
		"https://[::ffff:127.0.0.1]/", "https://localhost/", "https://LOCALHOST./", "https://a.localhost/", "https://127.1/",
		"https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/", "https://169.254.169.254/latest/meta-data",
		"https://[fe80::1%25eth0]/", "https://10.0.0.1:443/", "https://receiver.example.com:99999/", "https://exa mple.com/",
		"https://receiver.example.com:0/", "https://[2606:4700::1111%25eth0]/", "https://１２７.0.0.1/", "https://127。0。0。1/",
		"https://①②⑦.0.0.1/", "https://%31%32%37.0.0.1/", "https://1.1.1.1./", "https://0x7f.0.0.1/", "https://[::127.0.0.1]/",
		"https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://168.63.129.16/", "https://receiver.example.com\r\nX: y/",
		"javascript:alert(1)", "//receiver.example.com/", "https://@127.0.0.1/", "HTTPS://LocalHost:443/", "https://[fd00:ec2::254]/",
		"https://receiver.example.com/x ", " https://receiver.example.com/x", "https://receiver.example.com/x\u00a0", "https://receiver.example.com/x\t",
		"https://receiver.example.com/x\u200b", "https://receiver.example.com/\ufeffx", "https://receiver.example.com/a\u2028b",
		"https://a..b.example/", "https://.example.com/", "https://receiver.example.com../", "https://./", "https://../",
	} {
		var invalid *ValidationError
		if err := g.CheckURL(url); !errors.As(err, &invalid) || invalid.Field != "url" {
			t.Errorf("%q: got %v, want a ValidationError of url", url, err)
		}
	}
	for _, url := range []string{"https://receiver.example.com/hook?a=b", "https://receiver.example.com:8443", "https://1.1.1.1/", "https://receiver.example.com./", "https://receiver.example.com/é", longest} {
		if err := g.CheckURL(url); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestAKeyringRotates(t *testing.T) {
	t.Parallel()
	key := func(c byte) string {
		b := make([]byte, 32)
		b[0] = c
		return base64.StdEncoding.EncodeToString(b)
	}
	parse := func(text string) *Keyring {
		t.Helper()
		ring, err := ParseKeyring(text)
		if err != nil {
			t.Fatal(err)
		}
		return ring
	}
	endpoint := uuid.New()
	old := parse("old:" + key(1))
	id, sealed := old.Encrypt(endpoint, "whsec_x")
	both := parse("new:" + key(2) + ",old:" + key(1))
	if got, err := both.Decrypt(endpoint, id, sealed); err != nil || got != "whsec_x" {
		t.Errorf("after rotation: %q, %v", got, err)
	}
	if id, _ := both.Encrypt(endpoint, "x"); id != "new" {
		t.Errorf("sealed under %q, want new", id)
	}
	if _, err := both.Decrypt(uuid.New(), id, sealed); err == nil {
		t.Error("opens for another endpoint")
	}
	var unknown *UnknownKeyIDError
	if _, err := parse("new:"+key(2)).Decrypt(endpoint, id, sealed); !errors.As(err, &unknown) || unknown.KeyID != "old" {
		t.Errorf("got %v, want an UnknownKeyIDError of old", err)
	}
	for _, text := range []string{"", "x", "x:", ":" + key(1), "a:" + key(1) + ",a:" + key(2), "a:c2hvcnQ="} {
		var malformed *KeyringError
		if _, err := ParseKeyring(text); !errors.As(err, &malformed) {
			t.Errorf("%q: got %v, want a KeyringError", text, err)
		}
	}
}

func FuzzAURLThatIsAcceptedNamesNoPrivateAddress(f *testing.F) {
	for _, seed := range []string{
		"https://receiver.example.com:8443/hook?a=b", "https://127.0.0.1/", "https://[::ffff:127.0.0.1%25eth0]:1/", "https://0x7f.1/",
		"https://u:p@x/", "https://x\\@127.0.0.1/", "https://x:0/",
	} {
		f.Add(seed)
	}
	g := NewAddressPolicy(nil)
	f.Fuzz(func(t *testing.T, raw string) {
		if g.CheckURL(raw) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" || u.User != nil || u.Hostname() == "" {
			t.Fatalf("%q is accepted", raw)
		}
		if address, err := netip.ParseAddr(u.Hostname()); err == nil {
			address = address.Unmap()
			if address.IsPrivate() || address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsMulticast() || address.IsUnspecified() {
				t.Fatalf("%q is accepted", raw)
			}
		}
	})
}
