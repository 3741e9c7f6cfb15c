package endpoint

import (
	"strings"
	"testing"
)

// TestJSONReadsNothingFromTheConnection: a route that does not need the body has none. Reading it here would pass the limit for
// bodies in memory.
func TestJSONReadsNothingFromTheConnection(t *testing.T) {
	t.Parallel()
	body := strings.NewReader(`{"name":"abc"}`)
	ctx := asked("POST", "/")
	ctx.Request.Header.SetContentType("application/json")
	ctx.Request.SetBodyStream(body, body.Len())
	r := &Request{HTTP: ctx}
	var name string
	fields := r.JSON()
	if given := fields.Text("name", &name, 1, 5); given || fields.Check() == nil || body.Len() != int(body.Size()) {
		t.Errorf("%q was read; %d of %d bytes are left", name, body.Len(), body.Size())
	}
}
