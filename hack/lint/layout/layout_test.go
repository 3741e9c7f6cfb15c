package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// tree is a repository: Go files by name.
type tree map[string]string

// findings checks a tree with the given exceptions and returns the findings as text.
func (files tree) findings(t *testing.T, exceptions string) []string {
	t.Helper()
	root := fstest.MapFS{exceptionsFile: {Data: []byte(exceptions)}, timesFile: {}, "go.mod": {Data: []byte("module " + module)}}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	findings, err := check(root)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, f := range findings {
		texts = append(texts, f.String())
	}
	return texts
}

func importing(paths ...string) string {
	var text strings.Builder
	text.WriteString("package p\n")
	for _, path := range paths {
		fmt.Fprintf(&text, "import _ %q\n", path)
	}
	return text.String()
}

// expect fails the test unless the findings are of these subjects, in this order.
func expect(t *testing.T, findings []string, subjects ...string) {
	t.Helper()
	if len(findings) != len(subjects) {
		t.Fatalf("%d findings, want %d:\n%s", len(findings), len(subjects), strings.Join(findings, "\n"))
	}
	for i, subject := range subjects {
		if !strings.HasPrefix(findings[i], subject+": ") {
			t.Errorf("finding %q is not of %q", findings[i], subject)
		}
	}
}

func TestImportIsAllowedOrRefused(t *testing.T) {
	for _, test := range []struct {
		file, imports string
		allowed       bool
	}{
		// Rows.
		{"main.go", "examprep.dev/server/command", true},
		{"server/command/api.go", "examprep.dev/controllers", true},
		{"server/httpapi/server.go", "examprep.dev/server/gate", true},
		{"server/keys/store.go", "examprep.dev/server/audit", true},
		{"server/keys/store.go", "examprep.dev/server/keys/parts", true},
		{"server/httpapi/developer/keys.go", "examprep.dev/server/httpapi/apierror", true},
		{"server/webhooks/delivery/worker.go", "examprep.dev/server/webhooks", true},
		{"server/webhooks/delivery/worker.go", "examprep.dev/server/webhooks/delivery/retention", true},
		{"server/catalog/publish/publish.go", "examprep.dev/server/catalog", true},
		{"server/catalog/publish/publish.go", "examprep.dev/server/seals", true},
		{"server/attempts/service.go", "examprep.dev/server/attempts/marking", true},
		{"server/attempts/service.go", "examprep.dev/server/catalog/read", true},
		{"controllers/setup.go", "examprep.dev/server/content/assemble", true},
		{"server/attempts/service.go", "examprep.dev/server/catalog/publish", false},
		{"server/catalog/read/snapshot.go", "examprep.dev/server/catalog/publish", false},
		{"server/catalog/exam.go", "examprep.dev/server/catalog/read", false},
		{"server/catalog/exam.go", "examprep.dev/server/webhooks", false},
		{"server/keys/store.go", "examprep.dev/server/gate", false},
		{"server/postgres/pool.go", "examprep.dev/server/telemetry", false},
		{"server/gate/gate.go", "examprep.dev/server/httpapi", false},
		{"server/httpapi/server.go", "examprep.dev/controllers", false},
		{"controllers/setup.go", "examprep.dev/server/httpapi", false},
		{"server/content/lint.go", "examprep.dev/controllers", false},
		{"api/client/client.go", "examprep.dev/server/webhooks", false},
		{"api/openapi/openapitest/check.go", "examprep.dev/server/webhooks", false},
		{"api/client/client_test.go", "examprep.dev/server/httpapi", true},
		// Tests of domain packages.
		{"server/webhooks/worker_test.go", "examprep.dev/server/attempts", true},
		{"server/webhooks/worker_test.go", "examprep.dev/server/httpapi", false},
		{"server/httpapi/server_test.go", "examprep.dev/server/content", true},
		// The composition root.
		{"hack/bench/main.go", "examprep.dev/server/command", false},
		{"hack/bench/main_test.go", "examprep.dev/server/command", false},
		{"server/command/api_test.go", "examprep.dev/server/command", true},
		// Tables.
		{"server/keys/store.go", "examprep.dev/server/postgres/keysdb", true},
		{"server/webhooks/delivery/sweep.go", "examprep.dev/server/postgres/webhooksdb", true},
		{"server/audit/record.go", "examprep.dev/server/postgres/auditdb", true},
		{"server/gate/gate.go", "examprep.dev/server/postgres/keysdb", false},
		{"server/gate/gate_test.go", "examprep.dev/server/postgres/keysdb", false},
		{"hack/bench/main.go", "examprep.dev/server/postgres/keysdb", false},
		// Libraries.
		{"server/httpapi/server.go", "github.com/valyala/fasthttp", true},
		{"server/gate/gate.go", "github.com/valyala/fasthttp/fasthttputil", false},
		{"server/gate/gate_test.go", "github.com/valyala/fasthttp", false},
		{"server/gate/gate.go", "sigs.k8s.io/controller-runtime/pkg/client", false},
		{"server/catalog/exam.go", "k8s.io/api/core/v1", false},
		{"server/catalog/exam.go", "examprep.dev/api/v1alpha1", false},
		{"server/telemetry/log.go", "github.com/fasthttp/router", false},
		{"controllers/setup.go", "sigs.k8s.io/controller-runtime", true},
		{"controllers/setup.go", "github.com/valyala/fasthttp", false},
		{"controllers/setup_test.go", "examprep.dev/server/httpapi", false},
		{"server/httpapi/server.go", "sigs.k8s.io/yaml", false},
		{"server/httpapi/server.go", "github.com/jackc/pgx/v5/pgxpool", false},
		{"server/httpapi/server_test.go", "github.com/jackc/pgx/v5/pgxpool", true},
		// Packages that must not depend on each other.
		{"server/gate/gate.go", "examprep.dev/server/catalog", false},
		{"server/catalog/publish/publish.go", "examprep.dev/server/keys", false},
		{"server/webhooks/delivery/sweep.go", "examprep.dev/server/catalog", false},
		{"server/attempts/marking/grade.go", "examprep.dev/server/catalog", true},
		{"server/attempts/marking/grade.go", "examprep.dev/server/postgres", false},
		{"server/attempts/marking/grade_test.go", "github.com/redis/go-redis/v9", false},
		// Tools and helpers of tests.
		{"server/keys/store.go", "examprep.dev/hack/dev/process", false},
		{"server/keys/store_test.go", "examprep.dev/hack/dev/process", true},
		{"server/keys/store.go", "testing", false},
		{"server/keys/store.go", "net/http/httptest", false},
		{"server/keys/store.go", "examprep.dev/server/testkit", false},
		{"server/keys/store.go", "examprep.dev/server/testkit/stores", false},
		{"server/keys/store_test.go", "examprep.dev/server/testkit/stores", true},
		{"server/testkit/apitest/api.go", "examprep.dev/server/httpapi", true},
		{"server/testkit/postgres.go", "testing", true},
		{"server/testkit/supervise.go", "examprep.dev/hack/dev/servers", true},
		{"hack/bench/main.go", "examprep.dev/server/testkit", true},
	} {
		t.Run(test.file+" "+test.imports, func(t *testing.T) {
			findings := tree{test.file: importing(test.imports)}.findings(t, "")
			if test.allowed != (len(findings) == 0) {
				t.Errorf("allowed: %t, findings: %q", test.allowed, findings)
			}
		})
	}
}

func TestPackageOutsideTheRowsIsFound(t *testing.T) {
	files := tree{"server/novel/novel.go": "package novel\n", "server/noveltest/noveltest.go": "package noveltest\n", "hack/novel/main.go": "package main\n"}
	expect(t, files.findings(t, ""), "row server/novel")
}

func lines(count int) string { return "package p\n" + strings.Repeat("\n", count-1) }

// methods is a Go file with methods of a type, numbered from first on.
func methods(receiver string, first, count int) string {
	text := "package p\n"
	for i := range count {
		text += fmt.Sprintf("func (%s) m%d() {}\n", receiver, first+i)
	}
	return text
}

func TestLargeFileIsFound(t *testing.T) {
	const generated = "// Code generated by a tool. DO NOT EDIT.\n\n"
	files := tree{
		"server/keys/fits.go": lines(399), "server/keys/large.go": lines(400), "server/keys/large_test.go": lines(400),
		"server/keys/made.go": generated + lines(400), "server/keys/testdata/large.go": lines(400), ".dev/large.go": lines(400),
	}
	expect(t, files.findings(t, ""), "file server/keys/large.go")
}

func TestLargePackageIsFound(t *testing.T) {
	files := tree{}
	for i := range 5 {
		files[fmt.Sprintf("server/keys/k%d.go", i)] = lines(399)
		files[fmt.Sprintf("server/gate/g%d.go", i)] = lines(399)
		files[fmt.Sprintf("server/gate/g%d_test.go", i)] = lines(399)
	}
	files["server/gate/rest.go"] = lines(4)
	expect(t, files.findings(t, ""))
	files["server/keys/rest.go"] = lines(5)
	expect(t, files.findings(t, ""), "package server/keys")
}

func TestTypeWithManyMethodsIsFound(t *testing.T) {
	files := tree{
		"server/keys/a.go": methods("Fits", 0, 20), "server/keys/b.go": methods("s *Store[K, V]", 0, 11), "server/keys/c.go": methods("Store[K, V]", 11, 9),
		"server/gate/a_linux.go": methods("Gate", 0, 15), "server/gate/a_other.go": methods("Gate", 0, 15), "server/gate/a_test.go": methods("Gate", 20, 6),
	}
	expect(t, files.findings(t, ""))
	files["server/keys/d.go"] = methods("*Store[K, V]", 20, 1)
	expect(t, files.findings(t, ""), "type server/keys.Store")
}

func TestExceptionCoversItsSubjectUntilNothingNeedsIt(t *testing.T) {
	files := tree{"server/keys/large.go": lines(400), "server/keys/gate.go": importing("examprep.dev/server/gate")}
	const list = "# comment\n\nfile server/keys/large.go: divides soon\nimport server/keys server/gate: goes soon\n"
	expect(t, files.findings(t, list))
	files["server/keys/large.go"] = lines(399)
	expect(t, files.findings(t, list), "file server/keys/large.go")
	expect(t, files.findings(t, "type server/keys.Store: divides soon\n"), "import server/keys server/gate", "type server/keys.Store")
}

func TestMalformedExceptionIsAnError(t *testing.T) {
	for _, text := range []string{
		"file server/keys/large.go\n", "file server/keys/large.go: \n",
		"file a.go: divides soon\nfile a.go: divides later\n",
	} {
		if exceptions, err := parseExceptions(text); err == nil {
			t.Errorf("%q: %v", text, exceptions)
		}
	}
}

func TestRunFailsAndNamesEachFinding(t *testing.T) {
	root := fstest.MapFS{exceptionsFile: {}, timesFile: {}, "server/keys/large.go": {Data: []byte(lines(400))}}
	var printed strings.Builder
	if err := run(root, &printed); err == nil || printed.String() != "file server/keys/large.go: 400 lines; at most 399\n" {
		t.Errorf("%v, printed %q", err, printed.String())
	}
	delete(root, "server/keys/large.go")
	if err := run(root, &printed); err == nil {
		t.Error("a repository without Go files passes")
	}
}

// TestNoPackageIsInTwoRows keeps the row of a package unique.
func TestNoPackageIsInTwoRows(t *testing.T) {
	all := slices.Concat(rows()...)
	slices.Sort(all)
	if once := slices.Compact(slices.Clone(all)); len(once) != len(all) {
		t.Errorf("%q", all)
	}
	if !slices.Contains(rows()[rowOfCommand], "server/command") || !slices.Contains(rows()[topOfDomains], "server/gate") {
		t.Error("rowOfCommand and topOfDomains are not those of rows")
	}
}
