// Package postgres holds what all owners of tables share: the pool, the embedded migrations and the identity of the
// installation. The queries are in queries/<owner>.sql; sqlc generates a package from each owner's file (keysdb,
// usagedb, catalogdb, attemptsdb, webhooksdb, sessionsdb, auditdb), so that the import graph shows which package uses which table.
//
// There is one migration file for each owner. Until v1.0.0 a change of the schema edits that file: [Migrate] stores the
// digest of all files in the database, and a process refuses a database with another digest. From v1.0.0 on migrations
// are added, and run while pods of the version before work: they must not lock a table in use for more than a moment.
//
// It fails with *EnvironmentError when a process and its database belong to different environments, with *SchemaError when
// another build made the database, and otherwise with pgx's errors, wrapped. It imports no domain package.
package postgres
