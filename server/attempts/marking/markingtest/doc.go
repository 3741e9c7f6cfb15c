// Package markingtest has answer keys for tests, and a second implementation of scoring by rationals that shares no code
// with package marking.
package markingtest
