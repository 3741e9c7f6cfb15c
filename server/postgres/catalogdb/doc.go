// Package catalogdb is what sqlc makes of queries/catalog.sql: the statements of server/catalog as Go functions, and
// the rows of its tables. This file alone is written by hand; change the SQL and run `make generate` for the rest.
// Only server/catalog imports it.
package catalogdb
