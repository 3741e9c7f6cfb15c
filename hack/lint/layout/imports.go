package main

import "fmt"

// checkImports returns the imports that rows and bans do not allow, and the packages without a row.
func checkImports(sources []source) []finding {
	var findings []finding
	for _, s := range sources {
		if _, _, ok := rowOf(s.folder); !ok && isProduct(s.folder) {
			findings = append(findings, finding{"row " + s.folder, "belongs to no row; add it to hack/lint/layout/rows.go"})
		}
		for _, imported := range s.imports {
			if reason := refuse(s, imported); reason != "" {
				findings = append(findings, finding{"import " + s.folder + " " + imported, reason})
			}
		}
	}
	return findings
}

// refuse returns why a file may not import a package, or "".
func refuse(s source, imported string) string {
	for _, rule := range []func(source, string) string{
		refuseCommand, refuseTables, refuseTools, refuseTestHelpers, refuseUpwards, refuseBanned,
	} {
		if reason := rule(s, imported); reason != "" {
			return reason
		}
	}
	return ""
}

// refuseCommand keeps the composition root at the top, for tests as well.
func refuseCommand(s source, imported string) string {
	for _, command := range rows()[rowOfCommand] {
		if within(imported, command) && s.folder != "." && !within(s.folder, command) {
			return "main alone imports the composition root"
		}
	}
	return ""
}

// refuseTables keeps generated queries to the package that owns their tables, for tests as well.
func refuseTables(s source, imported string) string {
	owner, ok := ownerOf(imported)
	if !ok || within(s.folder, owner, "server/postgres") {
		return ""
	}
	return owner + " owns these tables"
}

func refuseTools(s source, imported string) string {
	if s.test || isTestHelper(s.folder) || within(s.folder, "hack") || !within(imported, "hack") {
		return ""
	}
	return "tools serve the product, never the other way round"
}

func refuseTestHelpers(s source, imported string) string {
	if s.test || !isProduct(s.folder) {
		return ""
	}
	if imported == "testing" || isTestHelper(imported) {
		return "only tests, and packages for tests, import this"
	}
	return ""
}

// refuseUpwards holds the rows. Tests, and packages for tests, import what makes their subject work, but those of domain
// packages nothing of the rows above.
func refuseUpwards(s source, imported string) string {
	from, fromEntry, ok := rowOf(s.folder)
	to, toEntry, known := rowOf(imported)
	_, tables := ownerOf(imported) // refuseTables decides
	if !ok || !known || tables || isTestHelper(imported) {
		return ""
	}
	var allowed bool
	switch {
	case !s.test && !isTestHelper(s.folder):
		allowed = to < from || toEntry == fromEntry || within(imported, withinRows()[fromEntry]...)
	case from == 0:
		allowed = s.test || to == 0
	default:
		allowed = from > topOfDomains || to <= topOfDomains
	}
	if allowed {
		return ""
	}
	return fmt.Sprintf("imports point downwards, and this is one from row %d to row %d", from, to)
}

func refuseBanned(s source, imported string) string {
	for _, ban := range bans() {
		if (s.test || isTestHelper(s.folder)) && !ban.tests {
			continue
		}
		if within(s.folder, ban.from...) && within(imported, ban.imports...) {
			return ban.reason
		}
	}
	return ""
}
