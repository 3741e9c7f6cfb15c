// Package postgres holds what every owner of tables shares: the pool, the embedded migrations and the environment
// stamp. The queries stand in queries/<owner>.sql; sqlc turns each owner's file into a package of its own
// (keysdb, catalogdb, attemptsdb, webhooksdb, sessionsdb, auditdb), so that the import graph shows who touches which
// table.
//
// Migrations run while the pods of the version before work on. New tables are theirs alone; what changes a table that is
// in use takes its lock for moments only, and an index on such a table is built CONCURRENTLY, in a file of its own
// without a transaction that drops first what a failure of it left behind.
//
// It fails with *EnvironmentError when a process and its database belong to different environments, with *SchemaError when
// the database's schema is older than the process needs, and otherwise with pgx's errors, wrapped. It imports no domain package.
package postgres
