// Package keysdb is what sqlc makes of queries/keys.sql: the statements of server/keys as Go functions,
// and the rows of its tables. This file alone is written by hand; change the SQL and run `make generate` for the rest.
// Only server/keys imports it.
package keysdb
