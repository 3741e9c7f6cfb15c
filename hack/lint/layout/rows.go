package main

import (
	"slices"
	"strings"
)

// rows are the product's packages from bottom to top, each with all packages below its folder unless those have an entry
// of their own. A package imports packages of lower rows only.
func rows() [][]string {
	return [][]string{
		{"api", "charts/examprep/runbooks"},
		{"server/audit", "server/batch", "server/console", "server/excerpt", "server/memory", "server/postgres", "server/redisurl", "server/telemetry"},
		{"server/accounts"},
		{
			"server/catalog", "server/keys", "server/ratelimit", "server/seals", "server/sessions", "server/usage", "server/webhooks",
		},
		{
			"server/attempts", "server/attempts/marking", "server/catalog/publish", "server/catalog/read", "server/gate",
			"server/webhooks/delivery",
		},
		{"controllers", "server/content", "server/httpapi"},
		{"server/command"},
		{"."}, // main.go
	}
}

// The highest row of domain packages, and the row of the composition root, which main alone imports.
const (
	topOfDomains = 4
	rowOfCommand = 6
)

// withinRows are the imports that one row allows: from a package or one below its folder to another.
func withinRows() map[string][]string {
	return map[string][]string{
		"server/attempts": {"server/attempts/marking", "server/catalog/read"},
		"controllers":     {"server/content/assemble"},
	}
}

// ban forbids some packages to import others, although the rows may allow it.
type ban struct {
	from, imports []string
	// tests reports whether the ban applies to tests too.
	tests  bool
	reason string
}

func bans() []ban {
	const (
		fasthttp, kubernetes = "github.com/valyala/fasthttp", "k8s.io"
		runtime, resources   = "sigs.k8s.io/controller-runtime", "api/v1alpha1"
	)
	domains := slices.Concat(rows()[1 : topOfDomains+1]...)
	return []ban{
		{domains, []string{fasthttp, "github.com/fasthttp"}, true, "domain packages know no HTTP server"},
		{domains, []string{kubernetes, runtime, resources}, true, "domain packages know no Kubernetes; controllers translate resources"},
		{[]string{"controllers"}, []string{fasthttp, "server/httpapi"}, true, "HTTP is httpapi's"},
		{[]string{"server/httpapi"}, []string{kubernetes, "sigs.k8s.io", resources}, false, "only controllers know Kubernetes"},
		{[]string{"server/httpapi"}, []string{"github.com/jackc/pgx"}, false, "tables belong to the domain packages"},
		{
			[]string{"server/attempts/marking"},
			[]string{"server/postgres", "server/redisurl", "github.com/jackc/pgx", "github.com/redis"},
			true, "marking has no database",
		},
		{[]string{"server/gate"}, []string{"server/catalog", "server/webhooks"}, false, "the gate knows keys only"},
		{[]string{"server/catalog"}, []string{"server/keys"}, false, "the catalogue knows no API key"},
		{[]string{"server/webhooks"}, []string{"server/catalog"}, false, "the catalogue records events, webhooks deliver them"},
	}
}

// within reports whether a package is one of folders or below one.
func within(name string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return name == folder || strings.HasPrefix(name, folder+"/")
	})
}

// rowOf returns the row of a product package, and the entry that it belongs to: the one with the longest path.
func rowOf(name string) (row int, entry string, ok bool) {
	for i, entries := range rows() {
		for _, candidate := range entries {
			if within(name, candidate) && len(candidate) > len(entry) {
				row, entry, ok = i, candidate, true
			}
		}
	}
	return row, entry, ok
}

// isProduct reports whether a package belongs to the product, and so to a row.
func isProduct(name string) bool {
	return !within(name, "hack") && !within(name, "docs") && !isTestHelper(name)
}

// isTestHelper reports whether a package exists for tests: it is below server/testkit or its folder's name ends in test.
func isTestHelper(name string) bool {
	return within(name, "server/testkit") ||
		slices.ContainsFunc(strings.Split(name, "/"), func(element string) bool { return strings.HasSuffix(element, "test") })
}

// ownerOf returns the package that owns the tables of a package of generated queries: server/keys of
// server/postgres/keysdb.
func ownerOf(name string) (owner string, ok bool) {
	folder, ok := strings.CutPrefix(name, "server/postgres/")
	if !ok || strings.Contains(folder, "/") {
		return "", false
	}
	owner, ok = strings.CutSuffix(folder, "db")
	return "server/" + owner, ok
}
