// Package script is the fixed list of exchanges that a capture plays: every operation with its responses and errors, and
// hostile input.
//
// Requests are templates. <<NAME>> is a value of the stage or of an earlier response ([Exchange.Keep]), and <<fresh>> is an
// API key that no other exchange uses. <<length>> is the number of bytes after the first empty line. Each exchange has its
// own connection and client address, so a difference in one exchange changes no other.
package script
