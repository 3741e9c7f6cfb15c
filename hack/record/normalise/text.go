package normalise

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// volatile finds values that differ from run to run, the longer of two that begin alike first.
var volatile = regexp.MustCompile(`service_[0-9a-f]{48}|service_[0-9a-f]{8}|whsec_[A-Za-z0-9+/=_-]+` +
	`|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}` +
	`|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})` +
	`|[0-9]{4}-[0-9]{2}-[0-9]{2}`)

// durations are members whose number says how long something took.
var durations = regexp.MustCompile(`("(?:duration_sec|duration_ms)":)[0-9]+`)

const (
	// nearTime is how far from the capture a time is one that the server made.
	nearTime = 3 * 24 * time.Hour
	// nearDays is how far from today a day depends on today.
	nearDays = 120
	day      = 24 * time.Hour
)

// Literal is a text that is known before the capture, such as an address with a chosen port.
type Literal struct{ Text, Placeholder string }

// Normaliser knows the values of a whole recording. Its exchanges must be passed in the recording's order.
type Normaliser struct {
	started  time.Time
	literals *strings.Replacer
	known    map[string]origin
}

// origin is where a value was shown first.
type origin struct {
	exchange, placeholder string
}

// New returns a normaliser of a capture that began at a time.
func New(started time.Time, literals ...Literal) *Normaliser {
	var pairs []string
	for _, literal := range literals {
		pairs = append(pairs, literal.Text, literal.Placeholder)
	}
	return &Normaliser{started: started.UTC(), literals: strings.NewReplacer(pairs...), known: make(map[string]origin)}
}

// Scope normalises the parts of one exchange.
type Scope struct {
	*Normaliser

	exchange string
	count    map[string]int
	times    []namedTime
}

type namedTime struct {
	at          time.Time
	placeholder string
}

// Exchange begins an exchange.
func (n *Normaliser) Exchange(name string) *Scope {
	return &Scope{Normaliser: n, exchange: name, count: make(map[string]int)}
}

// Text replaces all volatile parts of a text.
func (s *Scope) Text(text string) string {
	text = s.literals.Replace(text)
	text = durations.ReplaceAllString(text, `${1}"<duration>"`)
	return volatile.ReplaceAllStringFunc(text, s.value)
}

func (s *Scope) value(value string) string {
	switch {
	case strings.HasPrefix(value, "service_") && len(value) == len("service_")+48:
		return s.name("key", value)
	case strings.HasPrefix(value, "service_"):
		return s.name("prefix", value)
	case strings.HasPrefix(value, "whsec_"):
		return s.name("secret", value)
	case strings.HasPrefix(value, "00000000-"):
		return value
	case len(value) == len(time.DateOnly):
		return s.day(value)
	case strings.Contains(value, "T"):
		return s.time(value)
	default:
		return s.name("uuid", value)
	}
}

// name returns the placeholder of a value, and makes one if the value is new.
func (s *Scope) name(kind, value string) string {
	first, seen := s.known[value]
	if !seen {
		s.count[kind]++
		first = origin{s.exchange, fmt.Sprintf("%s#%d", kind, s.count[kind])}
		s.known[value] = first
	}
	if first.exchange == s.exchange {
		return "<" + first.placeholder + ">"
	}
	return "<" + first.placeholder + " of " + first.exchange + ">"
}

func (s *Scope) day(text string) string {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return text
	}
	switch days := int(at.Sub(s.started.Truncate(day)) / day); {
	case days == 0:
		return "<today>"
	case days < -nearDays || days > nearDays:
		return text
	default:
		return fmt.Sprintf("<today%+d>", days)
	}
}

func (s *Scope) time(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Sub(s.started).Abs() > nearTime {
		return text
	}
	if _, seen := s.known[text]; !seen && at.Nanosecond() != 0 {
		for _, earlier := range s.times {
			if apart := at.Sub(earlier.at); apart%time.Second == 0 {
				return fmt.Sprintf("<%s%+ds>", earlier.placeholder, int(apart/time.Second))
			}
		}
	}
	placeholder := s.name("time", text)
	s.times = append(s.times, namedTime{at, strings.Trim(placeholder, "<>")})
	return placeholder
}
