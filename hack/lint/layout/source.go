package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// module is the path that the repository's modules begin with.
const module = "examprep.dev"

// source is one Go file.
type source struct {
	// name is the file's path from the root, folder that of its package; "." is the root.
	name, folder    string
	test, generated bool
	lines           int
	// imports are paths: of packages of the repository from the root, of others as they are.
	imports []string
	// methods are the names of methods by the type of their receiver.
	methods map[string][]string
	// times are the lines of a test that pass literal times to limits.
	times []int
}

// readSources reads the Go files of a repository. It skips testdata and folders whose names begin with a dot.
func readSources(root fs.FS) ([]source, error) {
	var sources []source
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		read, err := parse(name, text)
		sources = append(sources, read)
		return err
	})
	if err == nil && len(sources) == 0 {
		return nil, fmt.Errorf("no Go files found")
	}
	return sources, err
}

func parse(name string, text []byte) (source, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{
		name: name, folder: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(file),
		lines: bytes.Count(text, []byte("\n")), methods: map[string][]string{},
	}
	if s.test {
		s.times = literalTimes(file, files)
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
		s.imports = append(s.imports, shorten(imported))
	}
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv != nil {
			receiver := receiverOf(function.Recv.List[0].Type)
			s.methods[receiver] = append(s.methods[receiver], function.Name.Name)
		}
	}
	return s, nil
}

// shorten turns the import path of a package of the repository into its path from the root.
func shorten(imported string) string {
	if imported == module {
		return "."
	}
	return strings.TrimPrefix(imported, module+"/")
}

// receiverOf returns the name of a receiver's type, without pointer and type parameters.
func receiverOf(expression ast.Expr) string {
	for {
		switch e := expression.(type) {
		case *ast.StarExpr:
			expression = e.X
		case *ast.ParenExpr:
			expression = e.X
		case *ast.IndexExpr:
			expression = e.X
		case *ast.IndexListExpr:
			expression = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// finding is one broken rule. Its subject, such as "file server/gate/batch.go", is what an exception names.
type finding struct{ subject, text string }

func (f finding) String() string { return f.subject + ": " + f.text }

// sorted returns each finding once.
func sorted(findings []finding) []finding {
	slices.SortFunc(findings, func(a, b finding) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(findings)
}
