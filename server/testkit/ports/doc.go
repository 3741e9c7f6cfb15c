// Package ports reserves loopback ports for servers that tests start as processes of their own. The kernel chooses the
// port. On Linux it gives the port to no other program until the test ends, also while the test's server is down.
//
// The reservation is a socket that is bound and does not listen. A server can listen next to it because both set
// SO_REUSEADDR, as PostgreSQL, Redis and Go do. Other systems only find a port that is free now.
package ports
