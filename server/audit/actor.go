package audit

import (
	"context"
	"net/netip"
)

// ActorKind is in which role somebody acts.
type ActorKind string

// The roles.
const (
	// Developer is a person who signed in and acts on the account's own things.
	Developer ActorKind = "developer"
	// Administrator acts on any account's things, by the command line.
	Administrator ActorKind = "administrator"
)

// Actor is who acts, and from where.
type Actor struct {
	Kind ActorKind
	// Name is a developer's [Person], or an administrator's user@host. While somebody is still signing in it is empty.
	Name string
	// Address is the client's, seen past trusted proxies; the zero Addr where there is none.
	Address netip.Addr
	// RequestID is the x-request-id of the answer; empty on the command line.
	RequestID string
}

// Person names who signed in. An issuer has no fragment (OpenID Connect Discovery 1.0, section 2), so the first # ends it.
func Person(issuer, subject string) string { return issuer + "#" + subject }

type actorKey struct{}

// WithActor returns a context in which actor acts: what stores change under it is recorded as the actor's doing.
func WithActor(ctx context.Context, actor Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorOf returns who acts in ctx; false for nobody that is recorded.
func ActorOf(ctx context.Context) (Actor, bool) {
	actor, ok := ctx.Value(actorKey{}).(Actor)
	return actor, ok
}
