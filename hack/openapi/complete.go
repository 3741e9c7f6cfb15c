package main

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// complete makes contract.yaml an OpenAPI document. It adds the version, the parameters of the path and x-request-id, the
// responses of the HTTP layer, the headers of each response, code samples, and the values and codes in descriptions. It replaces
// nothing else.
func complete(document *yaml.Node) error {
	root := document.Content[0]
	root.Content = append([]*yaml.Node{scalar("openapi"), scalar("3.1.0")}, root.Content...)
	components := member(root, "components")
	inlineWebhooks(root)
	describe(root)
	samples, err := parseSamples()
	if err != nil {
		return fmt.Errorf("parse samples.tmpl: %w", err)
	}
	for path, item := range members(member(root, "paths")) {
		parameters := member(item, "parameters")
		if parameters == nil {
			parameters = &yaml.Node{Kind: yaml.SequenceNode, Content: pathParameters(path, components)}
			item.Content = slices.Insert(item.Content, 0, scalar("parameters"), parameters)
		}
		parameters.Content = slices.Insert(parameters.Content, 0, reference("parameters", "RequestIdParameter"))
		for method, operation := range members(item) {
			if method == "parameters" {
				continue
			}
			if err := completeOperation(path, method, operation, root); err != nil {
				return err
			}
			if err := addSamples(samples, path, item, method, operation, root); err != nil {
				return err
			}
		}
	}
	return nil
}

// completeOperation adds the responses that all operations share, their headers, and the header that names an account.
func completeOperation(path, method string, operation, root *yaml.Node) error {
	responses := member(operation, "responses")
	if responses == nil {
		return fmt.Errorf("line %d: the operation has no responses", operation.Line)
	}
	addResponses(responses, commonResponses(path, method, operation))
	if actsInAccount(operation) {
		addParameter(operation, reference("parameters", "AccountParameter"))
	}
	for status, response := range members(responses) {
		if response = resolve(response, root); response == nil {
			return fmt.Errorf("line %d: the response %s of %s %s is not in components", operation.Line, status, method, path)
		}
		addHeaders(response, status)
	}
	return nil
}

// actsInAccount reports whether an operation needs a session, and a role in its account. The operations of the tag Sessions are a
// person's, in whatever account.
func actsInAccount(operation *yaml.Node) bool {
	security, tags := member(operation, "security"), member(operation, "tags")
	return security != nil && len(security.Content) > 0 && tags != nil && tags.Content[0].Value != "Sessions"
}

// pathParameters returns references to the components for the parameters in a path.
func pathParameters(path string, components *yaml.Node) (references []*yaml.Node) {
	for component, parameter := range members(member(components, "parameters")) {
		in, name := member(parameter, "in"), member(parameter, "name")
		if in != nil && in.Value == "path" && name != nil && strings.Contains(path, "{"+name.Value+"}") {
			references = append(references, reference("parameters", component))
		}
	}
	return references
}

// addParameter adds a parameter to an operation.
func addParameter(operation, parameter *yaml.Node) {
	parameters := member(operation, "parameters")
	if parameters == nil {
		parameters = &yaml.Node{Kind: yaml.SequenceNode}
		operation.Content = append(operation.Content, scalar("parameters"), parameters)
	}
	parameters.Content = append(parameters.Content, parameter)
}

// commonResponses returns the names in components/responses of an operation's responses, by status.
func commonResponses(path, method string, operation *yaml.Node) map[string]string {
	common := map[string]string{
		"400": "BadQuery", "408": "RequestTimeout", "413": "PayloadTooLarge", "429": "RateLimited", "431": "HeaderFieldsTooLarge",
		"500": "InternalError", "503": "ServiceUnavailable", "default": "OtherRefusal",
	}
	if member(operation, "requestBody") != nil {
		common["400"], common["415"] = "BadBody", "UnsupportedMediaType"
	}
	security := member(operation, "security") // none: an API key
	switch {
	case security == nil:
		common["401"] = "Unauthorized"
		if strings.Contains(path, "{exam_key}") {
			common["404"] = "ExamNotFound"
		}
	case len(security.Content) > 0: // a session
		common["401"], common["404"] = "NotSignedIn", "NotFound"
		if actsInAccount(operation) {
			common["403"], common["409"] = "Forbidden", "Conflict"
		} else if method != "get" {
			common["403"] = "OtherOrigin"
		}
	}
	return common
}

// addResponses adds the responses whose status an operation does not describe itself, in the order of the statuses.
func addResponses(responses *yaml.Node, common map[string]string) {
	type pair [2]*yaml.Node
	var all []pair
	for chunk := range slices.Chunk(responses.Content, len(pair{})) {
		delete(common, chunk[0].Value)
		all = append(all, pair(chunk))
	}
	for status, name := range common {
		all = append(all, pair{scalar(status), reference("responses", name)})
	}
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a[0].Value, b[0].Value) })
	responses.Content = nil
	for _, one := range all {
		responses.Content = append(responses.Content, one[:]...)
	}
}

// addHeaders adds the headers of every response, and no-store to a body that has no rule for caches.
func addHeaders(response *yaml.Node, status string) {
	headers := member(response, "headers")
	if headers == nil {
		headers = &yaml.Node{Kind: yaml.MappingNode}
		response.Content = slices.Insert(response.Content, min(2, len(response.Content)), scalar("headers"), headers) // after the description
	}
	if member(headers, "x-request-id") != nil {
		return // it is complete
	}
	common := []*yaml.Node{
		scalar("x-request-id"), reference("headers", "RequestIdHeader"),
		scalar("RateLimit-Limit"), reference("headers", "RateLimitLimitHeader"),
		scalar("RateLimit-Remaining"), reference("headers", "RateLimitRemainingHeader"),
		scalar("RateLimit-Reset"), reference("headers", "RateLimitResetHeader"),
		scalar("RateLimit-Policy"), reference("headers", "RateLimitPolicyHeader"),
	}
	if member(response, "content") != nil && member(headers, "Cache-Control") == nil && status != "default" {
		common = append(common, scalar("Cache-Control"), reference("headers", "NoStoreHeader"))
	}
	headers.Content = append(common, headers.Content...)
}

// resolve follows a reference to a component of the document root. It returns nil if the component does not exist, and any other
// node itself.
func resolve(node, root *yaml.Node) *yaml.Node {
	target := member(node, "$ref")
	if target == nil {
		return node
	}
	found := root
	for name := range strings.SplitSeq(strings.TrimPrefix(target.Value, "#/"), "/") {
		found = member(found, name)
	}
	return found
}

// members yields the names and values of a mapping.
func members(mapping *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		if mapping == nil {
			return
		}
		for pair := range slices.Chunk(mapping.Content, 2) {
			if !yield(pair[0].Value, pair[1]) {
				return
			}
		}
	}
}

// member returns a value of a mapping, nil if there is none.
func member(mapping *yaml.Node, name string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for key, value := range members(mapping) {
		if key == name {
			return value
		}
	}
	return nil
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// reference returns a reference to a component.
func reference(kind, name string) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar("$ref"), scalar("#/components/" + kind + "/" + name)}}
}
