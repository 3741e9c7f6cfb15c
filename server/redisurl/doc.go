// Package redisurl connects to Redis or Valkey by URL: one node, Sentinel or Cluster. It is apart because three owners
// (gate, webhooks) connect in the same way and none of them owns the others.
//
// It fails with the URL's mistake named, and never puts a password into an error.
package redisurl
