// Package client is for API clients: it verifies webhook deliveries (docs/spec.md, part 6) and calls the nine
// operations (docs/spec.md, part 4) by the retry rules (docs/spec.md, part 7).
//
// Verification fails with a typed error that says which rule a delivery broke. Calls fail with *Error for what the
// service answered, and with net/http's errors, wrapped, for what never arrived. It imports nothing of this module.
package client
