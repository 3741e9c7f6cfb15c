package openapitest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// A Recorder checks exchanges and stores them, to report which parts of the document they did not reach.
type Recorder struct {
	Document *Document

	mu   sync.Mutex
	seen map[Pair][]Exchange
}

// Check is Document.Check; an exchange that is right is kept.
func (r *Recorder) Check(e Exchange) error {
	pair, err := r.Document.Check(e)
	if err != nil || pair == (Pair{}) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = make(map[Pair][]Exchange)
	}
	r.seen[pair] = append(r.seen[pair], e)
	return nil
}

// Exchanges returns the exchanges that were right, by operation and status. The caller must not change them.
func (r *Recorder) Exchanges() map[Pair][]Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.seen)
}

// Missing are the documented pairs that were not seen.
func (r *Recorder) Missing() []Pair {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []Pair
	for _, operation := range r.Document.Operations() {
		for _, status := range operation.Statuses {
			if pair := (Pair{operation.ID, status}); len(r.seen[pair]) == 0 {
				missing = append(missing, pair)
			}
		}
	}
	return missing
}

// Survivors returns the mutations of the document that no recorded response contradicts: the parts that no test covers. A mutation
// removes the status of a recorded pair, or requires one more field in the body of a success. The pair's own answers must
// contradict these. Other mutations require one more field in the body of a refusal or in an object within a success, or give a
// property of a success another type. An answer of any operation that shares the schema can contradict those.
func (r *Recorder) Survivors() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var survivors []string
	within := make(map[mutation][]Pair)
	for _, operation := range r.Document.Operations() {
		for _, status := range operation.Statuses {
			pair := Pair{operation.ID, status}
			if len(r.seen[pair]) == 0 {
				continue
			}
			own, parts := r.Document.mutations(operation, status)
			for _, m := range own {
				if !r.contradicted(r.Document.mutated(m), pair) {
					survivors = append(survivors, pair.String()+": "+m.what)
				}
			}
			for _, m := range parts {
				within[m] = append(within[m], pair)
			}
		}
	}
	for m, pairs := range within {
		mutated := r.Document.mutated(m)
		if !slices.ContainsFunc(pairs, func(pair Pair) bool { return r.contradicted(mutated, pair) }) {
			survivors = append(survivors, fmt.Sprintf("%s: %s %s", pairs[0], m.at, m.what))
		}
	}
	slices.Sort(survivors)
	return survivors
}

// contradicted reports whether an answer of the pair is wrong by the mutated document. The largest answers are tried
// first: they contradict most.
func (r *Recorder) contradicted(mutated *Document, pair Pair) bool {
	samples := slices.SortedFunc(slices.Values(r.seen[pair]), func(a, b Exchange) int { return len(b.Body) - len(a.Body) })
	return slices.ContainsFunc(samples, mutated.contradicts)
}

// contradicts is Check as far as mutations can matter to it: it leaves out the headers.
func (d *Document) contradicts(e Exchange) bool {
	operation, _ := d.Operation(e.Method, e.Target)
	at, response, documented := d.Resolve(operation.at.Child("responses", itoa(e.Status)))
	return !documented || d.checkBody(at, response, e) != nil
}

type mutation struct {
	what string
	at   Location
}

const (
	withoutStatus = "without the status"
	withMore      = "with a field more"
	ofAnotherType = "of another type"
)

func (d *Document) mutated(m mutation) *Document { return d.Replace(m.at, m.value(d)) }

// value is what the mutation puts in its place.
func (m mutation) value(d *Document) any {
	switch m.what {
	case withMore:
		required, _ := d.at(m.at).([]any)
		return append(slices.Clone(required), "added_by_mutation")
	case ofAnotherType:
		return d.anotherType(m.at)
	default:
		return nil
	}
}

// mutations returns the mutations of one documented answer as a whole, and those of its parts.
func (d *Document) mutations(operation Operation, status int) (own, parts []mutation) {
	place := operation.at.Child("responses", itoa(status))
	own = []mutation{{withoutStatus, place}}
	at, response, _ := d.Resolve(place)
	if _, has := member(response, "content")["application/json"]; !has {
		return own, nil
	}
	body := at.Child("content", "application/json", "schema")
	root, _, _ := d.Resolve(body)
	more := mutation{withMore, root.Child("required")}
	if status >= 300 {
		return own, []mutation{more}
	}
	return append(own, more), d.partsOf(body, make(map[Location]bool))
}

// partsOf returns the mutations of a schema and of the schemas in it, each location once.
func (d *Document) partsOf(at Location, visited map[Location]bool) []mutation {
	at, schema, found := d.Resolve(at)
	if !found || visited[at] {
		return nil
	}
	visited[at] = true
	var all []mutation
	properties := member(schema, "properties")
	if len(properties) > 0 {
		all = append(all, mutation{withMore, at.Child("required")})
	}
	for _, name := range sortedKeys(properties) {
		place := at.Child("properties", name)
		all = append(append(all, mutation{ofAnotherType, place}), d.partsOf(place, visited)...)
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if _, is := schema[keyword].(map[string]any); is {
			all = append(all, d.partsOf(at.Child(keyword), visited)...)
		}
	}
	for _, keyword := range sameValueLists {
		list, _ := schema[keyword].([]any)
		for i := range list {
			all = append(all, d.partsOf(at.Child(keyword, itoa(i)), visited)...)
		}
	}
	return all
}

func (d *Document) anotherType(at Location) any {
	_, schema, _ := d.Resolve(at)
	types := []any{schema["type"]}
	if list, is := schema["type"].([]any); is {
		types = list
	}
	for _, other := range []string{"boolean", "array"} {
		if !slices.Contains(types, any(other)) {
			return map[string]any{"type": other}
		}
	}
	return map[string]any{"type": "null"}
}

// Replace returns the document with another value at a location, nil for none; d stays as it is. The result is not
// checked for validity: it may contradict everything.
func (d *Document) Replace(at Location, value any) *Document {
	root, is := replace(d.root, strings.Split(string(at), "/")[1:], value).(map[string]any)
	if !is {
		root = map[string]any{}
	}
	return newDocument(root)
}

// replace copies the containers on the way and shares all else.
func replace(node any, way []string, value any) any {
	if len(way) == 0 {
		return value
	}
	name := unescape.Replace(way[0])
	switch node := node.(type) {
	case map[string]any:
		changed := maps.Clone(node)
		if changed[name] = replace(node[name], way[1:], value); changed[name] == nil {
			delete(changed, name)
		}
		return changed
	case []any:
		changed := slices.Clone(node)
		for i := range changed {
			if itoa(i) == name {
				changed[i] = replace(node[i], way[1:], value)
			}
		}
		return changed
	default: // nothing there yet
		return map[string]any{name: replace(nil, way[1:], value)}
	}
}
