package httpapi

import (
	"fmt"
	"go/ast"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"examprep.dev/server/attempts"
	"examprep.dev/server/testkit/golden"
)

func TestGoldenRoutes(t *testing.T) {
	t.Parallel()
	server := &Server{developer: &Developer{}}
	names := map[access]string{accessKey: "key", accessOpen: "open", accessSession: "session"}
	var lines []string
	for _, route := range server.routes() {
		name, ok := names[route.access]
		if !ok {
			t.Fatalf("%s has access %d, which this test cannot name", route.operation, route.access)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s", route.method, route.path, route.operation, name))
	}
	golden.Compare(t, "routes", lines)
}

// TestGoldenErrors reads the statuses of this package's codes from its apiError literals. It asks from for those of
// the attempts' codes.
func TestGoldenErrors(t *testing.T) {
	t.Parallel()
	var lines []string
	files, listed := golden.Parse(t, "."), map[string]bool{}
	add := func(code, status string) {
		lines, listed[code] = append(lines, code+" "+status), true
	}
	codes := golden.Constants(files, "code")
	for _, literal := range literals(files, "apiError") {
		status, code := fields(literal)["status"], fields(literal)["code"]
		if isSelector(code, "mistake", "Code") {
			continue // the attempts' codes, below
		}
		name, ok := code.(*ast.Ident)
		if !ok || codes[name.Name] == "" {
			t.Fatal("the code of an apiError is not a constant of this package")
		}
		add(codes[name.Name], statusNumber(t, status))
	}
	for _, code := range golden.Constants(golden.Parse(t, "../attempts"), "Code") {
		add(code, strconv.Itoa(from(&attempts.Error{Code: code}).status))
	}
	for name, code := range codes {
		if !listed[code] {
			t.Errorf("%s = %q is the code of no apiError", name, code)
		}
	}
	slices.Sort(lines)
	golden.Compare(t, "errors", slices.Compact(lines))
}

// literals returns the composite literals of a type of this package that set any field.
func literals(files []*ast.File, typeName string) (found []*ast.CompositeLit) {
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			literal, ok := node.(*ast.CompositeLit)
			if !ok || len(literal.Elts) == 0 {
				return true
			}
			if name, ok := literal.Type.(*ast.Ident); ok && name.Name == typeName {
				found = append(found, literal)
			}
			return true
		})
	}
	return found
}

// fields returns the values of a literal by field name.
func fields(literal *ast.CompositeLit) map[string]ast.Expr {
	values := map[string]ast.Expr{}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if name, ok := pair.Key.(*ast.Ident); ok {
				values[name.Name] = pair.Value
			}
		}
	}
	return values
}

func isSelector(expr ast.Expr, of, name string) bool {
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	ident, ok := selector.X.(*ast.Ident)
	return ok && ident.Name == of && selector.Sel.Name == name
}

// statusNumber returns the number of a constant such as fasthttp.StatusNotFound.
func statusNumber(t *testing.T, expr ast.Expr) string {
	t.Helper()
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok {
		t.Fatalf("the status of an apiError is not a constant: %T", expr)
	}
	for number := 400; number < 600; number++ {
		if "Status"+strings.ReplaceAll(http.StatusText(number), " ", "") == selector.Sel.Name {
			return strconv.Itoa(number)
		}
	}
	t.Fatalf("%s is the name of no status from 400 on", selector.Sel.Name)
	return ""
}
