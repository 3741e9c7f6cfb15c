// Package openapi is the HTTP contract in machine-readable form: openapi.json, an OpenAPI 3.1 document (docs/spec.md states
// the rules). The server sends it to clients (/v1/openapi.json, and as a page /docs). Tests compare every response, and every
// limit in code, with it.
//
// A change of the interface begins in contract.yaml. `make generate` adds the parts that all operations share, and writes
// openapi.json (hack/openapi). Within v1 fields and operations are only added (docs/spec.md, part 9).
//
// The package imports no other package of this module.
package openapi
