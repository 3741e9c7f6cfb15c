// Package administration has the commands of administrators: `examprep keys` and `examprep accounts`. They need PostgreSQL only. Their
// changes are in the audit log as those of the operating system's user.
package administration
