package webhooks

import (
	"encoding/pem"
	"net/http/httptest"
	"testing"
	"time"
)

// senderTo returns a sender that trusts a server's certificate and may go to all of IPv4's loopback.
func senderTo(t testing.TB, server *httptest.Server) *sender {
	t.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s, err := newSender(loopback, authority, patience, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
