package developer

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/postgres"
)

// Deps are what the routes are answered from.
type Deps struct {
	SignIn   SignIn
	Sessions Sessions
	Accounts Accounts
	Audit    Audit
	Keys     Keys
	Usage    Usage
	Webhooks Webhooks
	// Deliveries has the deliveries of the webhooks.
	Deliveries Deliveries

	Environment     string        // production or sandbox; it is sent with each key
	SessionLifetime time.Duration // the cookie's: the absolute time-out of a session
	SignInContact   string        // support for persons who cannot sign in; the console shows it
	Now             func() time.Time

	Bulkhead *postgres.Bulkhead // bounds the connections that the calls of one account use at once; nil: no bound
}

// readsNothing is the operation of signed-in persons that uses no connection after the look-up of the session.
const readsNothing = "getSession"

// Routes returns all routes, the console's too. compressor keeps the console's files. Failed sign-ins are logged.
func Routes(deps Deps, compressor *codec.Compressor, logger *slog.Logger) []endpoint.Route {
	routes := newConsoleHandlers(deps, compressor).routes()
	routes = append(routes, (&signInHandlers{deps.SignIn, deps.Sessions, deps.SessionLifetime, logger}).routes()...)
	routes = append(routes, (&personHandlers{deps.SignIn, deps.Sessions, deps.Accounts}).routes()...)
	routes = append(routes, (&memberHandlers{deps.Accounts}).routes()...)
	routes = append(routes, (&auditHandlers{deps.Audit}).routes()...)
	routes = append(routes, (&overviewHandlers{deps.Keys, deps.Usage, deps.Webhooks, deps.Environment, deps.Now}).routes()...)
	routes = append(routes, (&keyHandlers{deps.Keys, deps.Environment}).routes()...)
	routes = append(routes, (&webhookHandlers{deps.Webhooks, deps.Deliveries, deps.Now}).routes()...)
	routes = append(routes, (&usageHandlers{deps.Usage, deps.Environment, deps.Now}).routes()...)
	for i := range routes {
		if routes[i].Access == endpoint.Session && routes[i].Operation != readsNothing {
			routes[i].Handle = bounded(deps.Bulkhead, routes[i].Handle)
		}
	}
	return routes
}

// bounded returns a handler that waits for its owner's share of connections.
func bounded(bulkhead *postgres.Bulkhead, handle endpoint.Handler) endpoint.Handler {
	return func(ctx context.Context, r *endpoint.Request) error {
		leave, err := bulkhead.Enter(ctx, postgres.DeveloperCalls, r.Session.Tenant())
		if err != nil {
			return err
		}
		defer leave()
		return handle(ctx, r)
	}
}

// session returns a route for signed-in persons, whatever their role.
func session(method, path, operation string, needs endpoint.Needs, handle endpoint.Handler) endpoint.Route {
	return endpoint.Route{Method: method, Path: path, Operation: operation, Access: endpoint.Session, Needs: needs, Handle: handle}
}

// roleFor returns routes for persons of the role in their accounts, and of a role that covers it.
func roleFor(role accounts.Role, routes ...endpoint.Route) []endpoint.Route {
	for i := range routes {
		routes[i].Role = role
	}
	return routes
}

// readID reads an optional field that is a UUID.
func readID(fields *codec.Fields, name string) (id uuid.NullUUID) {
	fields.Match(name, "must be a UUID", func(text string) bool {
		id.UUID, id.Valid = codec.ParseUUID(text)
		return id.Valid
	})
	return id
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
