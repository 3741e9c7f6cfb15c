// Package openapitest checks real exchanges against an OpenAPI 3.1 document. Tests compare a
// server's answers with the operations of the document, so that neither can change without the other.
//
// # What it checks
//
// A [Document] finds the operation of a request. It requires a documented status, media type and body of the answer. It also
// requires each required header, no undocumented header, and header values by their schemas. HEAD is checked as its GET, without a body. What belongs to no operation (an unknown path, another method,
// HTTP that could not be read) must be a refusal with the document's Error and the headers that all its answers share.
//
// It is stricter than a client may be. Clients must ignore unknown fields (docs/spec.md, part 9); here a property that
// the document does not know is a fault, because it was forgotten there. Wherever a value is described (a body, a
// property, an element) its object is closed, unless its schema says otherwise by additionalProperties.
//
// It also closes open enumerations (x-extensible-enum), and requires that an error's code is in the x-error-codes of its
// response.
//
// # Why two libraries
//
// kin-openapi 0.152 reads OpenAPI 3.1 and checks the document itself: its structure, references, schemas and examples.
// Its check of values is not strict enough: VisitJSON compiles the schema again for each value. If compilation fails or
// the schema has references, it silently falls back to its OpenAPI 3.0 validator, which does not support const,
// unevaluatedProperties and similar keywords. So santhosh-tekuri/jsonschema, which kin-openapi wraps, checks values. It
// implements all of JSON Schema 2020-12, resolves references within the unchanged document, and asserts formats.
//
// # How it fails
//
// [Load] returns an error if the document is not valid OpenAPI 3.1. Checks return every fault that they find, joined;
// they never panic on what a server sent. A Document may be used by many goroutines.
//
// It imports nothing of this module: the document is given to it.
package openapitest
