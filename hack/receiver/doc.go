// Command receiver is a webhook receiver for development: an HTTPS server that verifies what arrives and writes it
// down, one JSON object a line (received_at, headers, body as the exact text, verified). It answers 200 to deliveries
// that verify and 400 to others, so that a wrong secret shows as failing deliveries.
//
// It makes a certificate authority and a certificate for loopback names once, in --cert-dir; give ca.pem to the worker
// as --webhook-ca-file. The secret file is read at every delivery: one secret a line, any of them may have signed.
package main
