package openapitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// A Document is an OpenAPI 3.1 document that exchanges are checked against.
type Document struct {
	// root is the document as JSON, its objects closed; no other Document shares it.
	root map[string]any
	// paths are the path templates, those without parameters first.
	paths  []template
	shared func() []string
	// operations and resolved keep what was found: most exchanges of a test are of the same few places.
	operations sync.Map // Location to Operation
	resolved   sync.Map // Location to resolution

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[Location]*jsonschema.Schema
}

type resolution struct {
	at     Location
	object map[string]any
	found  bool
}

// A Location is a JSON pointer into a document, without "#": "" is the whole.
type Location string

// Child returns the location of a member or element of the value at l.
func (l Location) Child(names ...string) Location {
	for _, name := range names {
		l += Location("/" + escape.Replace(name))
	}
	return l
}

// escape and unescape are the escapes of JSON pointers (RFC 6901 §3).
var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// An Operation is one method of one path.
type Operation struct {
	// ID is the operationId.
	ID string
	// Method is in capitals.
	Method string
	// Path is the template, relative to the host: the path of the server's URL included.
	Path string
	// Statuses are the documented ones, ascending.
	Statuses []int

	at Location
}

// Load reads a document, YAML or JSON, and checks that it is valid OpenAPI 3.1 with valid examples, and that all its
// response schemas compile.
func Load(source []byte) (*Document, error) {
	loader := openapi3.NewLoader()
	model, err := loader.LoadFromData(source)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	if !strings.HasPrefix(model.OpenAPI, "3.1.") {
		return nil, fmt.Errorf("the document is OpenAPI %q, want 3.1", model.OpenAPI)
	}
	if err := model.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("the document is not valid OpenAPI: %w", err)
	}
	text, err := yaml.YAMLToJSONStrict(source)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	root, err := parseObject(text)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	closeObjects(root)
	closeEnums(root)
	d := newDocument(root)
	if err := d.compileAll(); err != nil {
		return nil, err
	}
	return d, nil
}

func parseObject(text []byte) (map[string]any, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	object, is := parsed.(map[string]any)
	if !is {
		return nil, errors.New("it is not an object")
	}
	return object, nil
}

func newDocument(root map[string]any) *Document {
	d := &Document{root: root, compiler: jsonschema.NewCompiler(), schemas: map[Location]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	base := d.basePath()
	for path := range member(root, "paths") {
		d.paths = append(d.paths, newTemplate(base+path, Location("").Child("paths", path)))
	}
	slices.SortFunc(d.paths, compareTemplates)
	d.shared = sync.OnceValue(d.findShared)
	return d
}

// basePath is the path of the first server's URL, which all paths of the document are relative to.
func (d *Document) basePath() string {
	servers, _ := d.root["servers"].([]any)
	if len(servers) == 0 {
		return ""
	}
	server, _ := servers[0].(map[string]any)
	address, _ := server["url"].(string)
	if _, rest, absolute := strings.Cut(address, "://"); absolute {
		_, path, _ := strings.Cut(rest, "/")
		address = "/" + path
	}
	return strings.TrimSuffix(address, "/")
}

var methods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodHead, http.MethodOptions, http.MethodTrace,
}

// Operations are all operations, by path and method.
func (d *Document) Operations() []Operation {
	var all []Operation
	for _, path := range d.paths {
		for _, method := range methods {
			if operation, found := d.operation(path, method); found {
				all = append(all, operation)
			}
		}
	}
	return all
}

func (d *Document) operation(path template, method string) (Operation, bool) {
	at := path.at.Child(strings.ToLower(method))
	if known, has := d.operations.Load(at); has {
		operation, is := known.(Operation)
		return operation, is
	}
	described, found := d.find(at)
	if !found {
		return Operation{}, false
	}
	operation := Operation{Method: method, Path: path.text, at: at}
	operation.ID, _ = described["operationId"].(string)
	for status := range member(described, "responses") {
		if number, err := strconv.Atoi(status); err == nil {
			operation.Statuses = append(operation.Statuses, number)
		}
	}
	slices.Sort(operation.Statuses)
	d.operations.Store(at, operation)
	return operation, true
}

func (d *Document) find(at Location) (map[string]any, bool) {
	object, is := d.at(at).(map[string]any)
	return object, is
}

func (d *Document) at(at Location) any {
	var node any = d.root
	for _, name := range strings.Split(string(at), "/")[1:] {
		switch parent := node.(type) {
		case map[string]any:
			node = parent[unescape.Replace(name)]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(parent) {
				return nil
			}
			node = parent[i]
		default:
			return nil
		}
	}
	return node
}

// Resolve follows references from a location to the object that they end at.
func (d *Document) Resolve(at Location) (Location, map[string]any, bool) {
	known, has := d.resolved.Load(at)
	if !has {
		var r resolution
		r.at, r.object, r.found = d.resolve(at)
		known = r
		d.resolved.Store(at, r)
	}
	r, _ := known.(resolution)
	return r.at, r.object, r.found
}

func (d *Document) resolve(at Location) (Location, map[string]any, bool) {
	for range 16 { // more is a circle
		object, found := d.find(at)
		if !found {
			return at, nil, false
		}
		reference, is := object["$ref"].(string)
		if !is {
			return at, object, true
		}
		target, local := strings.CutPrefix(reference, "#")
		if !local {
			return at, nil, false
		}
		at = Location(target)
	}
	return at, nil, false
}

func (d *Document) compile(at Location) (*jsonschema.Schema, error) {
	const address = "https://examprep.invalid/openapi.json"
	d.mu.Lock()
	defer d.mu.Unlock()
	if schema, has := d.schemas[at]; has {
		return schema, nil
	}
	var exists *jsonschema.ResourceExistsError
	if err := d.compiler.AddResource(address, d.root); err != nil && !errors.As(err, &exists) {
		return nil, err
	}
	schema, err := d.compiler.Compile(address + "#" + string(at))
	if err == nil {
		d.schemas[at] = schema
	}
	return schema, err
}

func (d *Document) compileAll() error {
	var failures []error
	walkSchemas(d.root, "", func(at Location, _ map[string]any) {
		if _, err := d.compile(at); err != nil {
			failures = append(failures, fmt.Errorf("schema %s: %w", at, err))
		}
	})
	return errors.Join(failures...)
}

func member(object map[string]any, name string) map[string]any {
	child, _ := object[name].(map[string]any)
	return child
}

func isRequired(described map[string]any) bool {
	required, _ := described["required"].(bool)
	return required
}

// sortedKeys makes what is found in maps come in the same order each time.
func sortedKeys(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }
