package normalise

import (
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"examprep.dev/hack/record/wire"
)

var (
	cookieValue = regexp.MustCompile(`^(__Host-examprep_[a-z_]+=)([^;]+)`)
	// parameters of a redirect to the provider that are new each time.
	parameters = regexp.MustCompile(`\b(state|nonce|code_challenge)=([^&]+)`)
	window     = regexp.MustCompile(`^([0-9]+);w=([0-9]+)$`)
)

// slowToken is the refill time, in seconds, from which on waiting times are counted in tokens: with a faster refill the
// first request of a bucket always gets the same number of seconds.
const slowToken = 60

// Headers returns the header lines of a response as "Name: value", sorted.
func (s *Scope) Headers(response wire.Response) []string {
	refill := secondsPerToken(response.Get("RateLimit-Policy"))
	lines := make([]string, 0, len(response.Headers))
	for _, header := range response.Headers {
		lines = append(lines, header.Name+": "+s.header(header, response, refill))
	}
	slices.Sort(lines)
	return lines
}

func (s *Scope) header(header wire.Header, response wire.Response, refill float64) string {
	switch strings.ToLower(header.Name) {
	case "date":
		return "<date>"
	case "x-request-id":
		if volatile.FindString(header.Value) == header.Value {
			return s.name("request-id", header.Value)
		}
		return header.Value
	case "content-length":
		return length(header.Value, response)
	case "ratelimit-reset", "retry-after":
		return inTokens(header.Value, refill)
	case "set-cookie":
		return cookieValue.ReplaceAllStringFunc(header.Value, func(text string) string {
			name, value, _ := strings.Cut(text, "=")
			return name + "=" + s.name("token", value)
		})
	case "location":
		value := s.literals.Replace(header.Value)
		return parameters.ReplaceAllStringFunc(value, func(text string) string {
			name, value, _ := strings.Cut(text, "=")
			return name + "=" + s.name(name, value)
		})
	default:
		return s.Text(header.Value)
	}
}

// length hides a length that is right, and that of a HEAD response to a body that is made for each request: times in it
// have one to six decimals.
func length(value string, response wire.Response) string {
	made := response.Code() == http.StatusOK && response.Get("Cache-Control") == "no-store" && value != "0"
	switch {
	case len(response.Body) > 0 && value == strconv.Itoa(len(response.Body)):
		return "<length>"
	case len(response.Body) == 0 && made:
		return "<length of another body>"
	default:
		return value
	}
}

// secondsPerToken reads "requests;w=seconds"; 0 for anything else.
func secondsPerToken(policy string) float64 {
	parts := window.FindStringSubmatch(policy)
	if parts == nil {
		return 0
	}
	requests, errRequests := strconv.ParseFloat(parts[1], 64)
	seconds, errSeconds := strconv.ParseFloat(parts[2], 64)
	if errRequests != nil || errSeconds != nil || requests == 0 {
		return 0
	}
	return seconds / requests
}

// inTokens writes a waiting time as the number of tokens that are refilled in it, where that takes long enough.
func inTokens(value string, refill float64) string {
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || refill < slowToken {
		return value
	}
	// The server rounds up to whole seconds; that second must not add a token.
	return "<" + strconv.Itoa(int(math.Ceil((seconds-1)/refill))) + " tokens>"
}
