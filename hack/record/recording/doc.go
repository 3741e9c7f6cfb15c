// Package recording keeps exchanges as JSON Lines and compares two recordings.
//
// [Compare] names each difference by the exchange and the part that differs: "status", "header.Allow", "body.detail",
// "connection"; "2.status" is of the second response. A list of allowed differences ([ReadAllowed]) takes patterns for both
// names, and a reason. An entry that allows nothing is reported, so the list cannot outlive its differences.
package recording
