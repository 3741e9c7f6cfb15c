package httpapi

// Route is an operation, for tests that go through all of them.
type Route struct{ Method, Path, Operation string }

// Routes are the operations of a server with these dependencies.
func Routes(deps Deps) []Route {
	table := (&Server{developer: deps.Developer}).routes()
	routes := make([]Route, len(table))
	for i, r := range table {
		routes[i] = Route{r.method, r.path, r.operation}
	}
	return routes
}
