// Package codegen pins the generators that `make generate` runs.
package codegen
