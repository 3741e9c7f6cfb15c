package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"go.yaml.in/yaml/v3"
)

//go:embed page.tmpl
var pageText string

type (
	// page is the data of page.tmpl.
	page struct {
		Title, Summary string
		Introduction   template.HTML
		// Topics are the headings of the introduction.
		Topics []topic
		Groups []group
		// Errors are the responses that every operation can have, by status.
		Errors []sharedError
	}
	topic struct{ ID, Name string }
	// group is a tag with its operations, or with its webhooks.
	group struct {
		ID, Name    string
		Description template.HTML
		Operations  []operation
	}
	operation struct {
		ID, Method, Path, Summary, Access string
		Description                       template.HTML
		Parameters                        []field
		Body                              *content
		Answers, Errors                   []response
		Samples                           []sample
	}
	response struct {
		Status      string
		Description template.HTML
		Headers     []field
		Content     *content
	}
	// content is a body: its fields, and examples of it.
	content struct {
		Description template.HTML
		Fields      []field
		Examples    []sample
	}
	// field is a parameter, header or property. Fields are the properties of its object, or of its elements.
	field struct {
		Name, Type, Place string
		Required          bool
		Description       template.HTML
		Fields            []field
	}
	sample struct{ Language, Label, Text string }
	// sharedError is a response of many operations. Its field Of names them if they are not all.
	sharedError struct {
		response

		Of string
	}
)

// renderPage returns the page of a complete document.
func renderPage(document []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil { // JSON is YAML, and a node keeps the order
		return nil, err
	}
	r := renderer{root: root.Content[0], markdown: goldmark.New(
		goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))}
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, err
	}
	data, err := r.page()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// renderer turns nodes of the document into data of the page.
type renderer struct {
	root     *yaml.Node
	markdown goldmark.Markdown
	failed   error
}

func (r *renderer) page() (page, error) {
	info := member(r.root, "info")
	p := page{Title: text(info, "title"), Summary: text(info, "summary"), Introduction: r.prose(info)}
	for line := range strings.Lines(text(info, "description")) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "## "); is {
			p.Topics = append(p.Topics, topic{strings.ToLower(strings.ReplaceAll(name, " ", "-")), name})
		}
	}
	operations := make(map[string][]operation)
	for path, item := range members(member(r.root, "paths")) {
		r.collect(operations, text(member(r.root, "servers").Content[0], "url")+path, item)
	}
	for name, item := range members(member(r.root, "webhooks")) {
		r.collect(operations, name, item)
	}
	for _, tag := range member(r.root, "tags").Content {
		name := text(tag, "name")
		p.Groups = append(p.Groups, group{
			ID: "tag-" + strings.ToLower(strings.ReplaceAll(name, " ", "-")), Name: name, Description: r.prose(tag), Operations: operations[name],
		})
	}
	for _, shared := range sharedErrors() {
		p.Errors = append(p.Errors, sharedError{r.response(shared[0], member(member(member(r.root, "components"), "responses"), shared[1])), shared[2]})
	}
	return p, r.failed
}

// sharedErrors are the responses that the page shows once: those of commonResponses, but for the resources that a path names. Each
// has its status, the name of its component, and which operations have it if not all.
func sharedErrors() [][3]string {
	return [][3]string{
		{"400", "BadQuery", "with parameters"},
		{"400", "BadBody", "with a body"},
		{"401", "Unauthorized", "with an API key"},
		{"401", "NotSignedIn", "with a session"},
		{"403", "OtherOrigin", "with a session"},
		{"403", "Forbidden", "with a session, in an account"},
		{"408", "RequestTimeout"},
		{"413", "PayloadTooLarge"},
		{"415", "UnsupportedMediaType", "with a body"},
		{"429", "RateLimited"},
		{"431", "HeaderFieldsTooLarge"},
		{"500", "InternalError"},
		{"503", "ServiceUnavailable"},
		{"default", "OtherRefusal"},
	}
}

// collect adds the operations of a path, or of a webhook, to the first of their tags.
func (r *renderer) collect(operations map[string][]operation, path string, item *yaml.Node) {
	for method, node := range members(item) {
		if method == "parameters" {
			continue
		}
		o := operation{
			ID: text(node, "operationId"), Method: strings.ToUpper(method), Path: path, Summary: text(node, "summary"),
			Description: r.prose(node), Access: access(node), Parameters: r.parameters(item, node),
		}
		if body := member(node, "requestBody"); body != nil {
			o.Body = r.content(body)
			o.Body.Description = r.prose(body)
		}
		for status, answer := range members(member(node, "responses")) {
			name := nameOf(answer)
			isShared := slices.ContainsFunc(sharedErrors(), func(shared [3]string) bool { return shared[1] == name })
			switch {
			case isShared:
			case status < "4":
				o.Answers = append(o.Answers, r.response(status, r.resolve(answer)))
			default:
				o.Errors = append(o.Errors, r.response(status, r.resolve(answer)))
			}
		}
		if list := member(node, "x-codeSamples"); list != nil {
			for _, one := range list.Content {
				o.Samples = append(o.Samples, sample{text(one, "lang"), text(one, "label"), text(one, "source")})
			}
		}
		tag := member(node, "tags").Content[0].Value
		operations[tag] = append(operations[tag], o)
	}
}

// access returns the authentication of an operation, as the page shows it.
func access(node *yaml.Node) string {
	security := member(node, "security")
	switch {
	case member(node, "x-codeSamples") == nil: // a webhook
		return ""
	case security == nil:
		return "API key"
	case len(security.Content) > 0:
		return "Session"
	default:
		return "Public"
	}
}

// parameters returns the parameters of the path, query and headers that are special to an operation.
func (r *renderer) parameters(item, node *yaml.Node) []field {
	var fields []field
	for _, list := range []*yaml.Node{member(item, "parameters"), member(node, "parameters")} {
		if list == nil {
			continue
		}
		for _, one := range list.Content {
			if name := nameOf(one); name == "RequestIdParameter" || name == "AccountParameter" {
				continue // the introduction and the tag describe them
			}
			parameter := r.resolve(one)
			f := r.field(text(parameter, "name"), member(parameter, "schema"), text(parameter, "required") == "true")
			f.Place, f.Description = text(parameter, "in"), r.prose(parameter)
			fields = append(fields, f)
		}
	}
	return fields
}

func (r *renderer) response(status string, node *yaml.Node) response {
	answer := response{Status: status, Description: r.prose(node)}
	for name, header := range members(member(node, "headers")) {
		switch nameOf(header) { // every response has these
		case "RequestIdHeader", "RateLimitLimitHeader", "RateLimitRemainingHeader", "RateLimitResetHeader", "RateLimitPolicyHeader", "NoStoreHeader":
			continue
		}
		header = r.resolve(header)
		f := r.field(name, member(header, "schema"), text(header, "required") == "true")
		f.Description = r.prose(header)
		answer.Headers = append(answer.Headers, f)
	}
	if member(node, "content") != nil {
		answer.Content = r.content(node)
		if status >= "4" { // the introduction describes the fields of an error
			answer.Content.Fields = nil
		}
	}
	return answer
}

// content returns the JSON body of a request or response.
func (r *renderer) content(node *yaml.Node) *content {
	media := member(member(node, "content"), "application/json")
	c := &content{Fields: r.fields(member(media, "schema"))}
	if example := member(media, "example"); example != nil {
		c.Examples = append(c.Examples, sample{Text: r.json(example)})
	}
	for _, example := range members(member(media, "examples")) {
		c.Examples = append(c.Examples, sample{Label: text(example, "summary"), Text: r.json(member(example, "value"))})
	}
	return c
}

// json returns a value as indented JSON.
func (r *renderer) json(node *yaml.Node) string {
	out, err := encode(node, jsontext.WithIndent("  "), jsontext.SpaceAfterColon(true))
	r.failed = cmp.Or(r.failed, err)
	return string(out)
}

// prose returns the description of a node as HTML.
func (r *renderer) prose(node *yaml.Node) template.HTML {
	var out bytes.Buffer
	if err := r.markdown.Convert([]byte(text(node, "description")), &out); err != nil {
		r.failed = cmp.Or(r.failed, fmt.Errorf("line %d: %w", node.Line, err))
	}
	return template.HTML(out.String()) //nolint:gosec // goldmark escapes HTML of the contract
}

// resolve follows a reference to a component.
func (r *renderer) resolve(node *yaml.Node) *yaml.Node {
	found := resolve(node, r.root)
	if found == nil && node != nil {
		r.failed = cmp.Or(r.failed, fmt.Errorf("%s does not exist", nameOf(node)))
	}
	return found
}

// nameOf is the name of the component that a node refers to, empty if it is not a reference.
func nameOf(node *yaml.Node) string {
	if target := member(node, "$ref"); target != nil {
		return target.Value[strings.LastIndexByte(target.Value, '/')+1:]
	}
	return ""
}

// text is a scalar of a mapping, empty if it is absent.
func text(node *yaml.Node, name string) string {
	if value := member(node, name); value != nil {
		return value.Value
	}
	return ""
}
