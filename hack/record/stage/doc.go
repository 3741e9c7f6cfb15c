// Package stage sets up a server to record: a new database, the fixture exams, rate tiers, API keys, an OpenID Connect
// provider and one API process.
//
// It uses only what every build of the server has: the commands migrate, content digest, content publish, keys create, keys
// revoke and api, with settings in environment variables. A build ignores variables that it does not know. Rate tiers are
// inserted by SQL, because only the operator has another way. Nothing is shared with other stages but the PostgreSQL server
// and the Redis server; keys in Redis stay there.
package stage
