package developer

import (
	"log/slog"
	"time"

	"examprep.dev/server/httpapi/endpoint"
)

// Deps are what the routes are answered from.
type Deps struct {
	SignIn   SignIn
	Sessions Sessions
	Keys     Keys
	Usage    Usage
	Webhooks Webhooks
	// Environment is production or sandbox. It is sent with each key.
	Environment string
	// SessionLifetime is the cookie's: the absolute time-out of a session.
	SessionLifetime time.Duration
	Now             func() time.Time
}

// Routes returns all routes. Failed sign-ins are logged.
func Routes(deps Deps, logger *slog.Logger) []endpoint.Route {
	routes := (&signInHandlers{deps.SignIn, deps.Sessions, deps.SessionLifetime, logger}).routes()
	routes = append(routes, (&keyHandlers{deps.Keys, deps.Environment}).routes()...)
	routes = append(routes, (&webhookHandlers{deps.Webhooks, deps.Now}).routes()...)
	return append(routes, (&usageHandlers{deps.Usage, deps.Environment, deps.Now}).routes()...)
}

// session returns a route for signed-in developers.
func session(method, path, operation string, needs endpoint.Needs, handle endpoint.Handler) endpoint.Route {
	return endpoint.Route{Method: method, Path: path, Operation: operation, Access: endpoint.Session, Needs: needs, Handle: handle}
}

// utc returns a time in UTC, whatever zone the database's session has.
func utc(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	shown := at.UTC()
	return &shown
}

// mapped returns f of each element.
func mapped[S, T any](list []S, f func(S) T) []T {
	results := make([]T, len(list))
	for i, element := range list {
		results[i] = f(element)
	}
	return results
}
