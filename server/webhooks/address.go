package webhooks

import (
	"fmt"
	"net/netip"
	"syscall"
)

// AddressError reports an address that webhooks must not reach.
type AddressError struct {
	Address string
	Range   string
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("%s is in a range that webhooks must not reach (%s)", e.Address, e.Range)
}

// publicIPv6 is the part of IPv6 that is in use as the public internet. All special ranges outside it (loopback, private,
// link-local, multicast, embedded and translated IPv4 addresses) are refused with it.
var publicIPv6 = netip.MustParsePrefix("2000::/3")

// refusedRanges returns the ranges of the IANA special-purpose registries (RFC 6890 and its updates) that are not the public
// internet. It adds the tunnels that lead from a public address to a private one. It also adds the public address of Azure's
// metadata service (168.63.129.16).
func refusedRanges() []netip.Prefix {
	texts := []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
		"168.63.129.16/32", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20",
	}
	prefixes := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		prefixes[i] = netip.MustParsePrefix(text)
	}
	return prefixes
}

// AddressPolicy decides which addresses webhooks can reach: the public internet, and the ranges that an administrator allows.
type AddressPolicy struct{ refused, allowed []netip.Prefix }

// NewAddressPolicy returns a policy; allowed has the ranges that are allowed although they are not public.
func NewAddressPolicy(allowed []netip.Prefix) *AddressPolicy {
	return &AddressPolicy{refused: refusedRanges(), allowed: allowed}
}

// Check returns *AddressError for an address that webhooks must not reach. An IPv4 address that is mapped to IPv6 is checked as
// the IPv4 address.
func (p *AddressPolicy) Check(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	for _, prefix := range p.allowed {
		if prefix.Contains(address) {
			return nil
		}
	}
	if address.Is6() && !publicIPv6.Contains(address) {
		return &AddressError{Address: address.String(), Range: "IPv6 outside " + publicIPv6.String()}
	}
	for _, prefix := range p.refused {
		if prefix.Contains(address) {
			return &AddressError{Address: address.String(), Range: prefix.String()}
		}
	}
	return nil
}

// DialControl is for net.Dialer.Control. It checks each address that is dialled, whatever its name resolved to before. If a name
// has public and private addresses, the dialer goes on to a public one.
func (p *AddressPolicy) DialControl(_, address string, _ syscall.RawConn) error {
	host, err := netip.ParseAddrPort(address)
	if err != nil {
		return &AddressError{Address: address, Range: "not an IP address"}
	}
	if zone := host.Addr().Zone(); zone != "" {
		return &AddressError{Address: address, Range: "of the network interface " + zone}
	}
	return p.Check(host.Addr())
}
