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
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/testkit/golden"
)

func TestGoldenRoutes(t *testing.T) {
	t.Parallel()
	names := map[endpoint.Access]string{endpoint.APIKey: "key", endpoint.Open: "open", endpoint.Static: "static", endpoint.Session: "session"}
	var lines []string
	for _, route := range routes(Config{}.withDefaults(), Deps{Catalog: brokenCatalog{}, Developer: &developer.Deps{}}) {
		name, ok := names[route.Access]
		if !ok {
			t.Fatalf("%s has access %d, which this test cannot name", route.Operation, route.Access)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s", route.Method, route.Path, route.Operation, name))
	}
	golden.Compare(t, "routes", lines)
}

// TestGoldenErrors reads the statuses of the codes from the literals of apierror.Error and the calls of apierror.New. It asks
// apierror.From for those of the attempts' codes.
func TestGoldenErrors(t *testing.T) {
	t.Parallel()
	var lines []string
	var files []*ast.File
	listed := map[string]bool{}
	for _, folder := range []string{".", "apierror", "codec", "developer", "endpoint", "reference"} {
		files = append(files, golden.Parse(t, folder)...)
	}
	add := func(code, status string) {
		lines, listed[code] = append(lines, code+" "+status), true
	}
	codes := golden.Constants(golden.Parse(t, "apierror"), "Code")
	addError := func(status, code ast.Expr) {
		name := lastName(code)
		if codes[name] == "" {
			t.Fatal("the code of an apierror.Error is not a constant of package apierror")
		}
		add(codes[name], statusNumber(t, status))
	}
	for _, literal := range literals(files, "Error") {
		status, code := fields(literal)["Status"], fields(literal)["Code"]
		if isSelector(code, "mistake", "Code") || lastName(code) == "code" {
			continue // the attempts' codes, below; those of New
		}
		addError(status, code)
	}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && lastName(call.Fun) == "New" && len(call.Args) == 3 {
				addError(call.Args[0], call.Args[1])
			}
			return true
		})
	}
	for _, folder := range []string{"../attempts", "../attempts/marking"} {
		for _, code := range golden.Constants(golden.Parse(t, folder), "Code") {
			add(code, strconv.Itoa(apierror.From(&attempts.Error{Code: code}).Status))
		}
	}
	for name, code := range codes {
		if !listed[code] {
			t.Errorf("%s = %q is the code of no apierror.Error", name, code)
		}
	}
	slices.Sort(lines)
	golden.Compare(t, "errors", slices.Compact(lines))
}

func literals(files []*ast.File, typeName string) (found []*ast.CompositeLit) {
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			literal, ok := node.(*ast.CompositeLit)
			if !ok || len(literal.Elts) == 0 {
				return true
			}
			if lastName(literal.Type) == typeName {
				found = append(found, literal)
			}
			return true
		})
	}
	return found
}

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

func lastName(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	default:
		return ""
	}
}

func isSelector(expr ast.Expr, of, name string) bool {
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	ident, ok := selector.X.(*ast.Ident)
	return ok && ident.Name == of && selector.Sel.Name == name
}

func statusNumber(t *testing.T, expr ast.Expr) string {
	t.Helper()
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok {
		t.Fatalf("the status of an apierror.Error is not a constant: %T", expr)
	}
	for number := 400; number < 600; number++ {
		if "Status"+strings.ReplaceAll(http.StatusText(number), " ", "") == selector.Sel.Name {
			return strconv.Itoa(number)
		}
	}
	t.Fatalf("%s is the name of no status from 400 on", selector.Sel.Name)
	return ""
}
