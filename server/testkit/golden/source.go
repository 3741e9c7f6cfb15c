package golden

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"examprep.dev/server/testkit/check"
)

// Parse parses the Go files in folder, without tests. It is for lists that no table in the code holds.
func Parse(t testing.TB, folder string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	check.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		check.NoError(t, err)
		files = append(files, file)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no Go files", folder)
	}
	return files
}

// Constants returns the string constants whose names begin with prefix, with their values.
func Constants(files []*ast.File, prefix string) map[string]string {
	constants := map[string]string{}
	for _, file := range files {
		for _, declaration := range file.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.CONST {
				continue
			}
			for _, spec := range general.Specs {
				addConstants(constants, spec, prefix)
			}
		}
	}
	return constants
}

func addConstants(to map[string]string, spec ast.Spec, prefix string) {
	values, ok := spec.(*ast.ValueSpec)
	if !ok || len(values.Names) != len(values.Values) {
		return
	}
	for i, name := range values.Names {
		literal, ok := values.Values[i].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || !strings.HasPrefix(name.Name, prefix) {
			continue
		}
		if value, err := strconv.Unquote(literal.Value); err == nil {
			to[name.Name] = value
		}
	}
}
