package recording

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Difference is one part of one exchange that is not the same in two recordings.
type Difference struct{ Exchange, Part, Before, After string }

// String returns the difference in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: %s → %s", d.Exchange, d.Part, short(d.Before), short(d.After))
}

// absent stands for a part that one recording lacks.
const absent = "(absent)"

// short keeps a line readable.
func short(text string) string {
	const most = 300
	if characters := []rune(text); len(characters) > most {
		text = string(characters[:most]) + "…"
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return strconv.Quote(text)
	}
	return text
}

// Compare returns the differences in the order of the first recording; exchanges that only the second has come last.
func Compare(before, after []Exchange) []Difference {
	var found []Difference
	second := make(map[string]Exchange, len(after))
	for _, exchange := range after {
		second[exchange.Name] = exchange
	}
	for _, a := range before {
		b, there := second[a.Name]
		delete(second, a.Name)
		if !there {
			found = append(found, Difference{a.Name, "exchange", "recorded", absent})
			continue
		}
		found = append(found, compareExchange(a, b)...)
	}
	for _, exchange := range after {
		if _, added := second[exchange.Name]; added {
			found = append(found, Difference{exchange.Name, "exchange", absent, "recorded"})
		}
	}
	return found
}

func compareExchange(a, b Exchange) []Difference {
	c := comparison{name: a.Name}
	c.text("request", a.Request, b.Request)
	for i := range max(len(a.Responses), len(b.Responses)) {
		c.prefix = ""
		if i > 0 {
			c.prefix = strconv.Itoa(i+1) + "."
		}
		switch {
		case i >= len(a.Responses):
			c.add("response", absent, b.Responses[i].Status)
		case i >= len(b.Responses):
			c.add("response", a.Responses[i].Status, absent)
		default:
			c.response(a.Responses[i], b.Responses[i])
		}
	}
	c.prefix = ""
	c.text("connection", a.Connection, b.Connection)
	return c.found
}

type comparison struct {
	name, prefix string
	found        []Difference
}

func (c *comparison) add(part, before, after string) {
	c.found = append(c.found, Difference{c.name, c.prefix + part, before, after})
}

func (c *comparison) text(part, a, b string) {
	if a != b {
		c.add(part, a, b)
	}
}

func (c *comparison) response(a, b Response) {
	c.text("status", a.Status, b.Status)
	first, second := byName(a.Headers), byName(b.Headers)
	for _, name := range slices.Sorted(maps.Keys(merged(first, second))) {
		c.text("header."+name, valueOf(first, name), valueOf(second, name))
	}
	c.text("coding", a.Coding, b.Coding)
	if a.Body == b.Body {
		return
	}
	var left, right any
	if json.Unmarshal([]byte(a.Body), &left) != nil || json.Unmarshal([]byte(b.Body), &right) != nil {
		c.add("body", a.Body, b.Body)
		return
	}
	known := len(c.found)
	c.value("body", left, right)
	if len(c.found) == known { // the same values, in another order or spelling
		c.add("body", a.Body, b.Body)
	}
}

// byName joins the values of equal header names.
func byName(headers []string) map[string]string {
	values := make(map[string]string, len(headers))
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if earlier, repeated := values[name]; repeated {
			value = earlier + "\n" + value
		}
		values[name] = value
	}
	return values
}

func merged[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func valueOf(values map[string]string, name string) string {
	if value, there := values[name]; there {
		return value
	}
	return absent
}

// value compares JSON values and names the members that differ.
func (c *comparison) value(part string, a, b any) {
	first, firstIsObject := a.(map[string]any)
	second, secondIsObject := b.(map[string]any)
	if firstIsObject && secondIsObject {
		for _, name := range slices.Sorted(maps.Keys(merged(first, second))) {
			left, inFirst := first[name]
			right, inSecond := second[name]
			switch {
			case !inFirst:
				c.add(part+"."+name, absent, encoded(right))
			case !inSecond:
				c.add(part+"."+name, encoded(left), absent)
			default:
				c.value(part+"."+name, left, right)
			}
		}
		return
	}
	left, firstIsList := a.([]any)
	right, secondIsList := b.([]any)
	if firstIsList && secondIsList && len(left) == len(right) {
		for i := range left {
			c.value(part+"."+strconv.Itoa(i), left[i], right[i])
		}
		return
	}
	if !reflect.DeepEqual(a, b) {
		c.add(part, encoded(a), encoded(b))
	}
}

func encoded(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSuffix(text.String(), "\n")
}
