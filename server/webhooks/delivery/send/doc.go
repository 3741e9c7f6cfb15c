// Package send makes one attempt to deliver an event: it signs the body, posts it to the endpoint's URL over HTTPS, and classifies
// the response. It dials no address that the endpoint must not name, follows no redirect and uses no proxy. It has no database.
//
// Where the tests are:
//
//   - sender_test.go: rude receivers, in a synctest bubble with production's time-out; certificates.
//   - address_test.go: private addresses, redirects and proxies; hostile_test.go has the name server for it.
//   - response_test.go: what is kept of a response.
//   - retry_after_test.go: what a receiver may ask for.
package send
