// Package usage counts the requests of each API key by UTC day, and when the key was last used.
//
// Each API pod has a [Meter]. [Meter.Count] adds to a counter in memory, one for each key and day: requests that the gate
// let pass, and requests that it refused for the key's rate. A request never waits for the database. Once an interval the
// pod writes its counters to key_usage_batches, up to 2,048 keys a row. Once the oldest batch is 15 seconds old, one pod at
// a time (an advisory lock) adds the batches of all pods to key_usage, 32 in one transaction. So usage includes a request
// within a minute.
//
// No request is counted twice. Each process is a writer with numbered batches, and the statement that stores a batch raises
// the writer's number in key_usage_writers. So a batch that is sent again after a lost answer is stored once. A roll-up
// deletes the batches in the transaction that adds them.
//
// A killed pod loses its last interval. A meter loses requests while PostgreSQL is unreachable and more keys are in use
// than it can hold. A pod that stops loses its counts if it cannot write them within two seconds of its last request.
// examprep_key_usage_lost_total counts the last two cases.
//
// One row costs no other. A pod keeps a batch that PostgreSQL refuses to store, and writes the others. A roll-up divides a batch that
// it cannot add, until one key is left, and adds the rest. It tries that key again after all others, for example when the lock on the
// key's row is gone. If the data are bad (damaged, or a sum out of range) it marks the key's batch as skipped.
// examprep_key_usage_skipped_batches counts such batches.
//
// The last use of a key is in its newest row of key_usage that has one (view api_key_uses). No process deletes rows of
// key_usage; docs/operations.md shows how to delete old days.
//
// The package knows neither HTTP nor Redis, and reads api_keys only to learn the account of a key.
package usage
