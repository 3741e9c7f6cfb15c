// Package script is the fixed list of exchanges that a capture plays: every operation with its responses and errors, and
// hostile input.
//
// Requests are templates: <<key>> is a value of the stage or of an earlier response ([Exchange.Keep]), <<fresh>> is an API
// key that no other exchange uses, and <<length>> is the number of bytes after the first empty line. An exchange has a
// connection and a client address of its own, so that one that the server treats differently changes no other one.
package script
