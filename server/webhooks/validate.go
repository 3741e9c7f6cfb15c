package webhooks

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxURL         = 2048 // characters
	maxDescription = 500  // characters
)

// validate checks a new endpoint. It returns *ValidationError.
func validate(policy *AddressPolicy, address string, events []Kind, description string) error {
	return Change{URL: &address, Events: append([]Kind{}, events...), Description: &description}.validate(policy)
}

// validate checks the fields that change. The others are not checked again: an endpoint whose URL is no longer allowed can still
// be disabled.
func (c Change) validate(policy *AddressPolicy) error {
	if c.URL != nil {
		if err := policy.CheckURL(*c.URL); err != nil {
			return err
		}
	}
	if c.Events != nil {
		if err := checkEvents(c.Events); err != nil {
			return err
		}
	}
	if c.Description != nil && utf8.RuneCountInString(*c.Description) > maxDescription {
		return &ValidationError{Field: "description", Detail: fmt.Sprintf("must have at most %d characters", maxDescription)}
	}
	return nil
}

func checkEvents(events []Kind) error {
	if len(events) == 0 {
		return &ValidationError{Field: "events", Detail: "must name at least one event"}
	}
	for i, event := range events {
		field := fmt.Sprintf("events[%d]", i)
		if !slices.Contains(Kinds(), event) {
			return &ValidationError{Field: field, Detail: "must be one of " + strings.Join(kindStrings(Kinds()), ", ")}
		}
		if slices.Contains(events[:i], event) {
			return &ValidationError{Field: field, Detail: "is given twice"}
		}
	}
	return nil
}

// CheckURL refuses a URL that can never be delivered to. The addresses of a host name are checked when they are dialled.
func (p *AddressPolicy) CheckURL(raw string) error {
	var detail string
	u, err := url.Parse(raw)
	switch {
	case utf8.RuneCountInString(raw) > maxURL:
		detail = fmt.Sprintf("must have at most %d characters", maxURL)
	case strings.TrimSpace(raw) != raw:
		detail = "must not begin or end with a blank"
	case strings.ContainsFunc(raw, func(r rune) bool { return !unicode.IsPrint(r) }):
		detail = "must not have an invisible character"
	case err != nil:
		detail = "is not a URL"
	case u.Scheme != "https":
		detail = "must begin with https://"
	case u.Hostname() == "" || u.Opaque != "":
		detail = "must name a host"
	case u.User != nil:
		detail = "must not contain credentials; receivers authenticate a delivery by its signature"
	case u.Fragment != "":
		detail = "must not have a fragment"
	case !validPort(u.Port()):
		detail = "has an invalid port"
	default:
		detail = p.hostProblem(u.Hostname())
	}
	if detail != "" {
		return &ValidationError{Field: "url", Detail: detail}
	}
	return nil
}

// validPort reports whether port is empty or a number from 1 to 65535.
func validPort(port string) bool {
	number, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && number > 0
}

// hostProblem returns why host is not allowed in a URL, or "".
func (p *AddressPolicy) hostProblem(host string) string {
	address, err := netip.ParseAddr(host)
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case err == nil && address.Zone() != "":
		return "must not name a network interface"
	case err == nil:
	case slices.Contains(strings.Split(name, "."), ""):
		return "must not have an empty label in its host: two dots, or a dot at the beginning"
	case strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }): // full-width digits are digits to some readers
		return "must have a host of other scripts in its ASCII form (xn--…)"
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case last != "" && strings.Trim(last, "0123456789") == "", strings.HasPrefix(last, "0x"): // 127.1, 0177.0.0.1, 0x7f000001
		return "must not have a numeric host name"
	default:
		return ""
	}
	if err := p.Check(address); err != nil {
		return err.Error()
	}
	return ""
}

func kindStrings(kinds []Kind) []string {
	list := make([]string, len(kinds))
	for i, kind := range kinds {
		list[i] = string(kind)
	}
	return list
}

func parseKinds(texts []string) []Kind {
	list := make([]Kind, len(texts))
	for i, text := range texts {
		list[i] = Kind(text)
	}
	return list
}
