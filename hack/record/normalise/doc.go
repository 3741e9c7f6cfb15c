// Package normalise replaces what differs between two runs of one server by placeholders: ids, keys, secrets, tokens, times
// and days near the capture, durations and, in a slow tier, times of the rate limit.
//
// A placeholder keeps equality. The first exchange that shows a value names it <uuid#1>. A later exchange shows the value as
// <uuid#1 of FIRST-EXCHANGE>. Each exchange begins with number 1, so a change in one does not renumber the others.
// A time that is whole seconds after another one of its exchange is written as <time#1+1500s>.
//
// Values that the client chose stay: UUIDs that begin with 00000000, and times far from the capture.
package normalise
