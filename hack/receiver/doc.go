// Command receiver is a webhook receiver for development: an HTTPS server that verifies each delivery and logs it, one JSON
// object a line (received_at, path, headers, body as the exact text, verified, repeated, status). It returns 200 for
// deliveries that verify and 400 for others, so that a wrong secret shows as failing deliveries. repeated is true for a
// path and dedupe_key that it has accepted before. While the file of --fail-file exists, it returns 503 for each delivery.
//
// It makes a certificate authority and a certificate for loopback names once, in --cert-dir; give ca.pem to the worker
// as --webhook-ca-file. The secret file is read at every delivery: one secret a line, any of them may have signed.
package main
