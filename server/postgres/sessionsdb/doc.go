// Package sessionsdb is what sqlc makes of queries/sessions.sql: the statements of server/sessions as Go functions,
// and the rows of its tables. This file alone is written by hand; change the SQL and run `make generate` for the rest.
// Only server/sessions imports it.
package sessionsdb
