package openapi

import _ "embed"

//go:embed openapi.json
var document []byte

// JSON returns the complete document, an OpenAPI 3.1 document in JSON. The caller must not change it.
func JSON() []byte { return document }
