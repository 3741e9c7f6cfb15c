package httpapi

// Route is an operation, for tests that go through all of them.
type Route struct{ Method, Path, Operation string }

// Routes returns the operations of a server with these dependencies.
func Routes(deps Deps) []Route {
	all := routes(Config{}.withDefaults(), deps)
	named := make([]Route, len(all))
	for i, r := range all {
		named[i] = Route{r.Method, r.Path, r.Operation}
	}
	return named
}
