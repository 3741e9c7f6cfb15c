// Package webhooksdb is what sqlc makes of queries/webhook_endpoints.sql, webhook_deliveries.sql and webhook_worker.sql: the
// statements of server/webhooks as Go functions, and the rows of its tables. This file alone is written by hand;
// change the SQL and run `make generate` for the rest. Only server/webhooks imports it.
package webhooksdb
