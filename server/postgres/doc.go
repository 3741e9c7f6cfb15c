// Package postgres holds what every owner of tables shares: the pool, the embedded migrations and the environment
// stamp. The queries stand in queries/<owner>.sql; sqlc turns each owner's file into a package of its own
// (keysdb, catalogdb, attemptsdb, webhooksdb), so that the import graph shows who touches which table.
//
// It fails with *EnvironmentError when a process and its database belong to different environments, and otherwise with
// pgx's errors, wrapped. It imports no domain package.
package postgres
