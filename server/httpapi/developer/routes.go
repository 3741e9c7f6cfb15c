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

	Environment     string        // production or sandbox; it is sent with each key
	SessionLifetime time.Duration // the cookie's: the absolute time-out of a session
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

// mapped returns f of each element, nil for nil.
func mapped[S, T any](list []S, f func(S) T) []T {
	if list == nil {
		return nil
	}
	results := make([]T, len(list))
	for i, element := range list {
		results[i] = f(element)
	}
	return results
}
