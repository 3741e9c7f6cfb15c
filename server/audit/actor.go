package audit

import (
	"context"
	"net/netip"
)

// ActorKind is the role of an actor.
type ActorKind string

// The roles.
const (
	// Developer is a person who signed in and acts on the account's own things.
	Developer ActorKind = "developer"
	// Administrator acts on any account's things, by the command line.
	Administrator ActorKind = "administrator"
)

// Actor is the person that acts, and the client that the person uses.
type Actor struct {
	Kind      ActorKind
	Name      string     // a developer's [Person], or an administrator's user@host; empty during sign-in
	Address   netip.Addr // the client's, seen past trusted proxies; the zero Addr where there is none
	RequestID string     // the x-request-id of the answer; empty on the command line
}

// Person names the person that signed in. An issuer has no fragment (OpenID Connect Discovery 1.0, section 2), so the first # ends it.
func Person(issuer, subject string) string { return issuer + "#" + subject }

type actorKey struct{}

// WithActor returns a context in which actor acts. Stores record the changes made with it as the actor's.
func WithActor(ctx context.Context, actor Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorOf returns the actor in ctx, and false if there is none, so that changes are not recorded.
func ActorOf(ctx context.Context) (Actor, bool) {
	actor, ok := ctx.Value(actorKey{}).(Actor)
	return actor, ok
}
