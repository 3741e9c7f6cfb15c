package httpapi

import (
	"context"

	"examprep.dev/server/audit"
)

// acting says in the context who acts, from where, and in which request: what the stores change under it is recorded so.
// The name is empty of a person who is still signing in.
func (s *Server) acting(ctx context.Context, r *request, name string) context.Context {
	return audit.WithActor(ctx, audit.Actor{
		Kind: audit.Developer, Name: name, Address: clientAddress(r.http, s.cfg.TrustedProxies), RequestID: string(r.id),
	})
}
