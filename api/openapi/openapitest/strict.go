package openapitest

// schemaLists, schemaMaps and schemaValues are the keywords of a schema that hold schemas for the same value (lists and
// single ones) and for parts of it.
var (
	sameValueLists = []string{"allOf", "anyOf", "oneOf"}
	sameValue      = []string{"if", "then", "else", "not"}
	partMaps       = []string{"properties", "patternProperties"}
	parts          = []string{"items", "additionalProperties", "contains", "unevaluatedItems"}
)

// closeObjects closes the object of every value that the document describes: unevaluatedProperties is false wherever a
// schema stands for a whole value. A schema that is combined with others (allOf, or behind a $ref) is left open, so that
// what the others know counts; the combination is closed. A schema with additionalProperties or
// unevaluatedProperties keeps them.
func closeObjects(root map[string]any) {
	for _, schema := range member(member(root, "components"), "schemas") {
		if object, is := schema.(map[string]any); is {
			closeParts(object)
		}
	}
	walkSchemas(root, "", func(_ Location, schema map[string]any) { closeValue(schema) })
}

// closeEnums makes each open enumeration below node a closed one: clients must accept other values, but the server sends no
// value that the document does not list.
func closeEnums(node any) {
	switch node := node.(type) {
	case map[string]any:
		if values, is := node["x-extensible-enum"]; is {
			node["enum"] = values
		}
		for _, child := range node {
			closeEnums(child)
		}
	case []any:
		for _, child := range node {
			closeEnums(child)
		}
	}
}

// walkSchemas visits the schema of each media type, parameter and header below a node of the document.
func walkSchemas(node any, at Location, visit func(at Location, schema map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		for _, name := range sortedKeys(node) {
			switch name {
			case "example", "examples", "schemas", "default":
				continue // values, and schemas that are reached where they are used
			case "schema":
				if schema, is := node[name].(map[string]any); is {
					visit(at.Child(name), schema)
					continue
				}
			}
			walkSchemas(node[name], at.Child(name), visit)
		}
	case []any:
		for i, element := range node {
			walkSchemas(element, at.Child(itoa(i)), visit)
		}
	}
}

func closeValue(schema map[string]any) {
	_, additional := schema["additionalProperties"]
	_, unevaluated := schema["unevaluatedProperties"]
	if !additional && !unevaluated && mayBeObject(schema) {
		schema["unevaluatedProperties"] = false
	}
	closeParts(schema)
}

// mayBeObject reports whether closing means anything: a schema of strings is left as it is.
func mayBeObject(schema map[string]any) bool {
	switch of := schema["type"].(type) {
	case string:
		return of == "object"
	case []any:
		for _, name := range of {
			if name == "object" {
				return true
			}
		}
		return false
	default:
		return len(schema) > 0
	}
}

func closeParts(schema map[string]any) {
	for _, keyword := range partMaps {
		for _, part := range member(schema, keyword) {
			if object, is := part.(map[string]any); is {
				closeValue(object)
			}
		}
	}
	for _, keyword := range parts {
		if object, is := schema[keyword].(map[string]any); is {
			closeValue(object)
		}
	}
	for _, keyword := range sameValue {
		if object, is := schema[keyword].(map[string]any); is {
			closeParts(object)
		}
	}
	for _, keyword := range sameValueLists {
		list, _ := schema[keyword].([]any)
		for _, element := range list {
			if object, is := element.(map[string]any); is {
				closeParts(object)
			}
		}
	}
}
