package syntax

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readings finds text that readers of YAML read as different values, and numbers that lose digits. kubectl reads YAML 1.1; kustomize and
// many editors read YAML 1.2. A file must have one meaning.
type readings struct {
	// left is how many problems can be reported.
	left   *int
	report func(p Path, at *yaml.Node, format string, args ...any)
}

// compare walks the tree and the value that kubectl reads from it. The target of an alias is checked where it is defined.
func (r readings) compare(node *yaml.Node, value any, p Path, depth int) {
	if depth > maxJSONDepth || *r.left == 0 {
		return
	}
	switch node.Kind {
	case yaml.SequenceNode:
		items, _ := value.([]any)
		for i, item := range node.Content {
			if i < len(items) {
				r.compare(item, items[i], p.At(i), depth+1)
			}
		}
	case yaml.MappingNode:
		r.mapping(node, value, p, depth)
	case yaml.ScalarNode:
		r.scalar(node, value, p)
	default:
	}
}

func (r readings) mapping(node *yaml.Node, value any, p Path, depth int) {
	members, ok := value.(map[string]any)
	if !ok {
		return
	}
	for i := 0; i < len(node.Content); i += 2 {
		key, below := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || *r.left == 0 {
			continue
		}
		if key.ShortTag() == "!!merge" {
			if i > 0 {
				r.report(p.Field(key.Value), key, "must be the first entry of its mapping: readers of YAML disagree which value applies")
			}
			r.compare(below, value, p, depth+1)
			continue
		}
		member, found := members[key.Value]
		if !found {
			r.report(p.Field(key.Value), key, "is not read as this name by YAML 1.1, which kubectl uses: put quotes around %s", key.Value)
			continue
		}
		r.compare(below, member, p.Field(key.Value), depth+1)
	}
}

var (
	// decimal is a number that every reader of YAML and JSON takes for the same one.
	decimal = regexp.MustCompile(`^[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
	// booleans are the words that YAML 1.1 and 1.2 take for booleans.
	booleans = []string{"true", "True", "TRUE", "false", "False", "FALSE"}
	// texts are the tags of what kubectl takes for text although YAML has a type for it.
	texts = []string{"!!str", "!!timestamp", "!!binary"}
)

func (r readings) scalar(node *yaml.Node, value any, p Path) {
	plain := node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	switch value.(type) {
	case bool:
		if !slices.Contains(booleans, node.Value) {
			r.report(p, node, "must be true or false: %s is a boolean to YAML 1.1 and a text to YAML 1.2", shown(node.Value))
		}
	case json.Number:
		r.number(node, p)
	case string:
		if plain && !slices.Contains(texts, node.ShortTag()) {
			r.report(p, node, "is a text to some readers of YAML and none to others: put quotes around %s", shown(node.Value))
		}
	}
}

// maxNumberBytes is more than any number needs. The time to compare a number grows with the square of its digits.
const maxNumberBytes = 400

func (r readings) number(node *yaml.Node, p Path) {
	text := node.Value
	if len(text) > maxNumberBytes {
		r.report(p, node, "%s is a number of more than %d characters", shown(text), maxNumberBytes)
		return
	}
	if !decimal.MatchString(text) {
		r.report(p, node, "%s is not a decimal number: leading zeros, 0x, 0o, 0b and _ are read in different ways", text)
		return
	}
	float, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.report(p, node, "%s is out of range", text)
		return
	}
	exact := wholeNumber(text)
	if exact == nil {
		return
	}
	if read, _ := big.NewFloat(float).Int(nil); read.Cmp(exact) != 0 {
		r.report(p, node, "%s has more digits than a number keeps: it would be %s", text, read)
	}
}

// wholeNumber returns the value of a decimal number, nil if it is a fraction.
func wholeNumber(text string) *big.Int {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if size, err := strconv.Atoi(text[i+1:]); err != nil || size < -400 || size > 400 {
			return nil // zero, however it is written
		}
	}
	exact, ok := new(big.Rat).SetString(strings.TrimPrefix(text, "+"))
	if !ok || !exact.IsInt() {
		return nil
	}
	return exact.Num()
}
