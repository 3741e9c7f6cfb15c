package webhooks

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

// AddressError says that a delivery may not go to an address.
type AddressError struct {
	Address string
	Range   string
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("%s lies in a range that webhooks may not reach (%s)", e.Address, e.Range)
}

// refusedRanges are those of the IANA special-purpose registries (RFC 6890 and its updates) that are not the public
// internet, with the translation and tunnel ranges through which a public-looking address reaches a private one, and
// the one metadata service that has a public address (Azure's 168.63.129.16). Of IPv6 only 2000::/3 is in use as the
// public internet: the last line refuses the rest.
func refusedRanges() []netip.Prefix {
	texts := []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
		"168.63.129.16/32", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
		"2002::/16", "3ffe::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
		"::/3", "4000::/2", "8000::/1",
	}
	prefixes := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		prefixes[i] = netip.MustParsePrefix(text)
	}
	return prefixes
}

// AddressPolicy decides which addresses may be dialled.
type AddressPolicy struct{ refused, allowed []netip.Prefix }

func NewAddressPolicy(allowed []netip.Prefix) *AddressPolicy {
	return &AddressPolicy{refused: refusedRanges(), allowed: allowed}
}

// check refuses what is not the public internet, unless an administrator allowed its range. An IPv4 address in IPv6
// clothes is judged as the IPv4 address that it reaches.
func (p *AddressPolicy) check(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	for _, prefix := range p.allowed {
		if prefix.Contains(address) {
			return nil
		}
	}
	for _, prefix := range p.refused {
		if prefix.Contains(address) {
			return &AddressError{Address: address.String(), Range: prefix.String()}
		}
	}
	return nil
}

// DialControl is a net.Dialer's Control: it sees each address that is really dialled, whatever the name resolved to before.
// Of a name with addresses of both kinds the private ones are passed over, and the delivery goes to a public one.
func (p *AddressPolicy) DialControl(_, address string, _ syscall.RawConn) error {
	host, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressError{Address: address, Range: "not an IP address"}
	}
	if zone := host.Addr().Zone(); zone != "" {
		return &AddressError{Address: address, Range: "of the network interface " + zone}
	}
	return p.check(host.Addr())
}

// checkURL refuses at registration what could never be delivered to. Names are judged when they are dialled.
func (p *AddressPolicy) checkURL(raw string) error {
	refuse := func(detail string) error { return &ValidationError{Field: "url", Detail: detail} }
	if len(raw) > 2048 {
		return refuse("must have at most 2048 characters")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return refuse("is not a URL")
	case u.Scheme != "https":
		return refuse("must begin with https://")
	case u.Hostname() == "" || u.Opaque != "":
		return refuse("must name a host")
	case u.User != nil:
		return refuse("must not hold credentials: the signature is what a receiver trusts")
	case u.Fragment != "":
		return refuse("must not have a fragment")
	}
	if port := u.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return refuse("has a port that is none")
		}
	}
	return p.checkHost(u.Hostname(), refuse)
}

func (p *AddressPolicy) checkHost(host string, refuse func(string) error) error {
	if address, err := netip.ParseAddr(host); err == nil {
		if address.Zone() != "" {
			return refuse("must not name a network interface")
		}
		if err := p.check(address); err != nil {
			return refuse(err.Error())
		}
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }):
		return refuse("must write a host of other scripts in its ASCII form (xn--…)") // full-width digits are digits to some
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return p.checkLoopbackName(refuse)
	case last != "" && strings.Trim(last, "0123456789") == "", strings.HasPrefix(last, "0x"):
		return refuse("has a host that some readers take for an IP address") // 127.1, 0177.0.0.1, 0x7f000001
	}
	return nil
}

func (p *AddressPolicy) checkLoopbackName(refuse func(string) error) error {
	if err := p.check(netip.AddrFrom4([4]byte{127, 0, 0, 1})); err != nil {
		return refuse(err.Error())
	}
	return nil
}
