// Package attemptsdb is what sqlc makes of queries/attempts.sql: the statements of server/attempts as Go functions,
// and the rows of its tables. This file alone is written by hand; change the SQL and run `make generate` for the rest.
// Only server/attempts imports it.
package attemptsdb
