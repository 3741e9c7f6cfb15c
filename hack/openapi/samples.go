package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/template"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

//go:embed samples.tmpl
var sampleText string

// parseSamples returns the templates of the languages. Each takes a call.
func parseSamples() (*template.Template, error) { return template.New("samples").Parse(sampleText) }

// call is the request of a code sample.
type call struct {
	ID, Method string
	// Path is relative to the base address.
	Path string
	// Body is JSON in one line, empty without one.
	Body string
	// Key, Session: the request has an API key, or the cookie of a session.
	Key, Session bool
	// Status is the documented status of success.
	Status int
}

// StatusName is the name of the status in net/http.
func (c call) StatusName() string {
	return map[int]string{
		http.StatusOK: "StatusOK", http.StatusCreated: "StatusCreated", http.StatusAccepted: "StatusAccepted",
		http.StatusNoContent: "StatusNoContent", http.StatusSeeOther: "StatusSeeOther",
	}[c.Status]
}

// MethodName is the name of the method in net/http.
func (c call) MethodName() string { return "Method" + c.Method[:1] + strings.ToLower(c.Method[1:]) }

// Redirects reports whether the response is a redirect, which the samples do not follow.
func (c call) Redirects() bool { return c.Status == http.StatusSeeOther }

// HasAnswer reports whether the response has a body.
func (c call) HasAnswer() bool { return !c.Redirects() && c.Status != http.StatusNoContent }

// addSamples adds x-codeSamples to an operation: its example as a request in curl, TypeScript and Go.
func addSamples(samples *template.Template, path string, item *yaml.Node, method string, operation, root *yaml.Node) error {
	c, err := exampleCall(path, item, method, operation, root)
	if err != nil {
		return fmt.Errorf("samples of %s %s: %w", method, path, err)
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, language := range []struct{ name, label string }{{"Shell", "curl"}, {"TypeScript", "TypeScript"}, {"Go", "Go"}} {
		var source bytes.Buffer
		if err := samples.ExecuteTemplate(&source, language.name, c); err != nil {
			return fmt.Errorf("sample of %s in %s: %w", c.ID, language.label, err)
		}
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
			scalar("lang"), scalar(language.name), scalar("label"), scalar(language.label), scalar("source"), scalar(source.String()),
		}})
	}
	operation.Content = append(operation.Content, scalar("x-codeSamples"), list)
	return nil
}

// exampleCall returns the request that an operation's examples describe.
func exampleCall(path string, item *yaml.Node, method string, operation, root *yaml.Node) (call, error) {
	c := call{Method: strings.ToUpper(method), Path: path}
	if id := member(operation, "operationId"); id != nil {
		c.ID = id.Value
	}
	for _, parameter := range member(item, "parameters").Content {
		target := resolve(parameter, root)
		if in := member(target, "in"); in != nil && in.Value == "path" {
			example := member(target, "example")
			if example == nil {
				return c, fmt.Errorf("the parameter %s has no example", member(target, "name").Value)
			}
			c.Path = strings.ReplaceAll(c.Path, "{"+member(target, "name").Value+"}", example.Value)
		}
	}
	if body := member(operation, "requestBody"); body != nil {
		example := member(member(member(body, "content"), "application/json"), "example")
		if example == nil {
			return c, errors.New("the request body has no example")
		}
		text, err := encode(example, jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
		if err != nil {
			return c, err
		}
		c.Body = string(text)
	}
	security := member(operation, "security")
	c.Key, c.Session = security == nil, security != nil && len(security.Content) > 0
	for status := range members(member(operation, "responses")) {
		if number, err := strconv.Atoi(status); err == nil && number < http.StatusBadRequest {
			if c.Status == 0 || number > c.Status && number < http.StatusMultipleChoices {
				c.Status = number
			}
		}
	}
	return c, nil
}
