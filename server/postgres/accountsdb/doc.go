// Package accountsdb is what sqlc makes of queries/accounts.sql: the statements of server/accounts as Go functions,
// and the rows of its tables. This file alone is written by hand; change the SQL and run `make generate` for the rest.
// Only server/accounts imports it.
package accountsdb
