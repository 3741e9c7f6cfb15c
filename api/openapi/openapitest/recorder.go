package openapitest

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// A Recorder checks exchanges and remembers them, to tell what of the document they did not reach.
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

// Survivors are the mutations of the document that none of the exchanges contradicts: what they describe is proven by
// no answer. For each pair that was seen, its status is taken away, and its body gets a required field; for a success
// also each object within the body gets one, and each property another type.
func (r *Recorder) Survivors() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var survivors []string
	for _, operation := range r.Document.Operations() {
		for _, status := range operation.Statuses {
			pair := Pair{operation.ID, status}
			samples := r.seen[pair]
			// The richest first: most mutations are contradicted at the first try.
			slices.SortStableFunc(samples, func(a, b Exchange) int { return len(b.Body) - len(a.Body) })
			for _, m := range r.Document.mutations(operation, status) {
				if len(samples) > 0 && !r.contradicted(m, samples) {
					survivors = append(survivors, pair.String()+": "+m.what)
				}
			}
		}
	}
	return survivors
}

func (r *Recorder) contradicted(m mutation, samples []Exchange) bool {
	mutated := r.Document.Replace(m.at, m.value)
	return slices.ContainsFunc(samples, func(e Exchange) bool {
		_, err := mutated.Check(e)
		return err != nil
	})
}

// A mutation puts another value at a location of the document.
type mutation struct {
	what  string
	at    Location
	value any
}

// mutations are those of one documented answer.
func (d *Document) mutations(operation Operation, status int) []mutation {
	place := operation.at.Child("responses", itoa(status))
	all := []mutation{{"without the status", place, nil}}
	at, response, _ := d.Resolve(place)
	if _, has := member(response, "content")["application/json"]; !has {
		return all
	}
	body := at.Child("content", "application/json", "schema")
	if status < 300 {
		return append(all, d.mutateSchema(body, "body", make(map[Location]bool))...)
	}
	at, schema, _ := d.Resolve(body)
	return append(all, requireMore(at, schema, "body"))
}

// addedField is a field that no answer has.
const addedField = "added_by_mutation"

func requireMore(at Location, schema map[string]any, path string) mutation {
	required, _ := schema["required"].([]any)
	return mutation{path + " with a field more", at.Child("required"), append(slices.Clone(required), addedField)}
}

// mutateSchema are the mutations of a schema and of what it holds, each location once.
func (d *Document) mutateSchema(at Location, path string, visited map[Location]bool) []mutation {
	at, schema, found := d.Resolve(at)
	if !found || visited[at] {
		return nil
	}
	visited[at] = true
	var all []mutation
	properties := member(schema, "properties")
	if len(properties) > 0 {
		all = append(all, requireMore(at, schema, path))
	}
	for _, name := range sortedKeys(properties) {
		place := at.Child("properties", name)
		all = append(all, mutation{path + "." + name + " of another type", place, d.anotherType(place)})
		all = append(all, d.mutateSchema(place, path+"."+name, visited)...)
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if _, is := schema[keyword].(map[string]any); is {
			all = append(all, d.mutateSchema(at.Child(keyword), path+"[]", visited)...)
		}
	}
	for _, keyword := range sameValueLists {
		list, _ := schema[keyword].([]any)
		for i := range list {
			all = append(all, d.mutateSchema(at.Child(keyword, itoa(i)), path, visited)...)
		}
	}
	return all
}

// anotherType is a schema that no value of the one at a location fits.
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
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(way[0])
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
