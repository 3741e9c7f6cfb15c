// Package usagedb is what sqlc makes of queries/usage.sql: the statements of server/usage as Go functions, and the rows
// of its tables. This file alone is written by hand; change the SQL and run `make generate` for the rest. Only
// server/usage imports it.
package usagedb
