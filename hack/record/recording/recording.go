package recording

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Exchange is one line of a recording: what was sent on one connection and what came back. Parts that differ between two
// runs of one server are replaced by placeholders.
type Exchange struct {
	Name       string     `json:"name"`
	Request    string     `json:"request"`
	Responses  []Response `json:"responses"`
	Connection string     `json:"connection"`
}

// Response is one HTTP response.
type Response struct {
	Status  string   `json:"status"`
	Headers []string `json:"headers"` // "Name: value", sorted
	// Coding is the content coding that Body was decoded from, if any.
	Coding string `json:"coding,omitempty"`
	Body   string `json:"body,omitempty"`
}

// Write writes exchanges, one a line.
func Write(w io.Writer, exchanges []Exchange) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, exchange := range exchanges {
		if err := encoder.Encode(exchange); err != nil {
			return fmt.Errorf("write exchange %q: %w", exchange.Name, err)
		}
	}
	return nil
}

// longestLine bounds a line of a recording.
const longestLine = 16 << 20

// Read reads a recording. Names must be unique.
func Read(r io.Reader) ([]Exchange, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, longestLine)
	var exchanges []Exchange
	seen := make(map[string]bool)
	for number := 1; lines.Scan(); number++ {
		var exchange Exchange
		if err := json.Unmarshal(lines.Bytes(), &exchange); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if seen[exchange.Name] {
			return nil, fmt.Errorf("line %d: a second exchange is named %q", number, exchange.Name)
		}
		seen[exchange.Name] = true
		exchanges = append(exchanges, exchange)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	return exchanges, nil
}
