package crowdtest

import (
	"net/http"
	"sync"
	"testing"

	"examprep.dev/api/openapi"
	"examprep.dev/api/openapi/openapitest"
	"examprep.dev/server/testkit/check"
)

// Contract holds what is answered and delivered against the HTTP contract. Clients run on goroutines of their own, so it
// keeps what it finds for the end.
type Contract struct {
	document *openapitest.Document

	mu     sync.Mutex
	faults []string
	missed int
}

// maxFaults is how many faults are kept; the others are counted.
const maxFaults = 20

// NewContract reads the contract, and fails the test at its end if something broke it.
func NewContract(t *testing.T) *Contract {
	t.Helper()
	text := openapi.JSON()
	document, err := openapitest.Load(text)
	check.NoError(t, err)
	c := &Contract{document: document}
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, fault := range c.faults {
			t.Errorf("against the contract: %s", fault)
		}
		if c.missed > 0 {
			t.Errorf("and %d more", c.missed)
		}
	})
	return c
}

// answer checks an answer. The client has undone its Content-Encoding.
func (c *Contract) answer(got *http.Response, body []byte) {
	_, err := c.document.Check(openapitest.Exchange{
		Method: got.Request.Method, Target: got.Request.URL.RequestURI(), Status: got.StatusCode, Header: got.Header, Body: body,
	})
	c.keep(err)
}

// delivery checks a webhook as it arrived.
func (c *Contract) delivery(kind string, headers map[string]string, body string) {
	header := http.Header{}
	for name, value := range headers {
		header.Set(name, value)
	}
	c.keep(c.document.CheckWebhook(kind, header, []byte(body)))
}

func (c *Contract) keep(fault error) {
	if fault == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faults) == maxFaults {
		c.missed++
		return
	}
	c.faults = append(c.faults, fault.Error())
}
