// Package codec reads request bodies and queries, and chooses encodings of responses.
//
// [ReadBody] and [ReadQuery] return [Fields]. Each getter sets its target and notes what is wrong with its field, so Check
// returns one error that names every wrong field. Readers are strict: duplicate names, invalid UTF-8 and trailing bytes are
// errors.
//
// It knows neither routes nor domain packages.
package codec
