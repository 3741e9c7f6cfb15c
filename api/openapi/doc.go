// Package openapi is the HTTP contract in machine-readable form: openapi.yaml, an OpenAPI 3.1 document (docs/spec.md states
// the rules). JSON completes it with what all operations have in common, and the server sends the result to clients
// (/v1/openapi.json, /docs). Tests compare every response, and every limit in code, with it.
//
// A change of the interface begins here. Within v1 fields and operations are only added (docs/spec.md, part 9).
//
// The conversion to JSON fails if the document uses YAML that JSON does not have (a duplicate name, a name that is not a
// string, an alias). A test checks that it does not. The package imports no other package of this module.
package openapi
