// Package redisurl connects to Redis or Valkey by URL: one node, Sentinel or Cluster. The gate and the webhooks use it.
//
// Its errors name the mistake in the URL, and never contain a password.
package redisurl
