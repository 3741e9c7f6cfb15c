// Package auditdb is what sqlc makes of queries/audit.sql: the statements of server/audit as Go functions, and the
// rows of its tables. This file alone is written by hand; change the SQL and run `make generate` for the rest. Only
// server/audit imports it.
package auditdb
