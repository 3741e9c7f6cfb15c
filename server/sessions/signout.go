package sessions

import (
	"context"

	"examprep.dev/server/audit"
)

// SignOut ends the session of a token.
func (s *SignIn) SignOut(ctx context.Context, token string, session Session) error {
	if err := s.record(ctx, audit.SessionEnd, session); err != nil {
		return err
	}
	return s.store.End(ctx, token)
}

// SignOutEverywhere ends all sessions of the session's account.
func (s *SignIn) SignOutEverywhere(ctx context.Context, session Session) error {
	if err := s.record(ctx, audit.SessionEndAll, session); err != nil {
		return err
	}
	return s.store.EndAll(ctx, session)
}

// record notes what is about to become of a session: before, since Redis and Postgres have no transaction together, so
// that nothing happens without a record. Of a sign-in the actor has no name yet.
func (s *SignIn) record(ctx context.Context, action audit.Action, session Session) error {
	if actor, known := audit.ActorOf(ctx); known && actor.Name == "" {
		actor.Name = audit.Person(session.Issuer, session.Subject)
		ctx = audit.WithActor(ctx, actor)
	}
	return audit.Record(ctx, s.db, audit.Entry{Account: session.AccountID, Action: action})
}
