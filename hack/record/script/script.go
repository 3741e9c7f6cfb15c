package script

import (
	"context"
	"time"
)

// Exchange is what happens on one connection.
type Exchange struct {
	// Name is unique; its first part, up to "/", is the group's.
	Name string
	// Send is one or more segments. A segment that begins with Continue waits for a response with status 100.
	Send []string
	// Responses is how many final responses are expected; 0 means 1, None means none.
	Responses int
	Head      bool // the requests are HEAD
	HalfClose bool // the client closes its sending side
	Leave     bool // the client closes the connection without reading
	Unprobed  bool // wait for the server to close the connection
	// Limit bounds the exchange; 0 means the usual time.
	Limit time.Duration
	// Source is the client's address; empty means one of its own.
	Source string
	// First keeps only the first response with this status, if it is not 0.
	First int
	// Digest records bodies by their SHA-256.
	Digest bool
	// Keep names values of the response for later templates: "variable" → "body.member" or "header.Name".
	Keep map[string]string
	// Before is done before, and not recorded.
	Before Step
}

const (
	// None means that no response is expected.
	None = -1
	// Continue begins a segment that is sent after a response with status 100.
	Continue = "<<continue>>"
)

// Group is exchanges that are played in order.
type Group struct {
	Name string
	// Slow groups wait for the server's time limits, so they run at the same time as the others.
	Slow      bool
	Exchanges []Exchange
}

// Step prepares an exchange.
type Step func(ctx context.Context, actor Actor) error

// Actor is what a Step can do.
type Actor interface {
	// Send sends one request from an address of its own and returns status code and body.
	Send(ctx context.Context, template string) (int, []byte, error)
	// Approve signs in as subject at the provider address in one variable, and keeps the callback's target in another.
	Approve(ctx context.Context, address, subject, target string) error
	// SignIn signs a person in and keeps the session in the variable of that name.
	SignIn(ctx context.Context, person string) error
	// Hold keeps connections from an address open until the capture ends.
	Hold(ctx context.Context, source string, count int) error
	// Execute runs a statement in the server's database.
	Execute(ctx context.Context, statement string) error
}

// Groups returns the whole list.
func Groups() []Group {
	groups := []Group{
		catalog(), conditional(), encodings(), methods(), access(), rates(), attempts(), answers(), invalidFields(), history(),
		reference(), signIn(), session(), keys(), webhooks(), deliveries(), usage(), limits(), origins(),
		hostileLines(), hostileTargets(), hostileHeaders(), hostileLengths(), hostileChunks(), hostileJSON(), hostileQueries(),
		pipelines(), partial(), expectations(),
	}
	return append(groups, slow()...)
}
