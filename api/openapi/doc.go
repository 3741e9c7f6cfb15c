// Package openapi is the HTTP contract in machine-readable form: openapi.yaml, an OpenAPI 3.1 document (docs/spec.md states
// the rules). The server sends it to clients (/v1/openapi.json, /docs). Tests compare every response, and every limit in
// code, with it.
//
// A change of the interface begins here. Within v1 fields and operations are only added (docs/spec.md, part 9).
//
// It fails on a document that is not YAML as JSON has it (a name twice, a name that is no string, an alias), which a test
// notices before anybody else. It imports nothing of this module.
package openapi
