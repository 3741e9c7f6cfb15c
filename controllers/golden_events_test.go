package controllers

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/testkit/golden"
)

// tellers are the functions whose argument with this index becomes the reason of Ready or of an event itself. Each change
// of Ready is an event.
func tellers() map[string]int {
	return map[string]int{"stalled": 1, "waiting": 1, "finish": 1, "Eventf": 3}
}

// deciders are the functions whose argument with this index becomes the reason of the condition in argument 0. It is an
// event if the condition is occasional or the reason is an alarm.
func deciders() map[string]int { return map[string]int{"pass": 1, "decide": 2} }

// eventReasons returns the reasons of Kubernetes events that files record. It follows the constants api/v1alpha1.Reason…
// into arguments, local variables and fields, and fails the test at a use that it does not know.
func eventReasons(t *testing.T, files, api []*ast.File) []string {
	t.Helper()
	e := &eventFinder{t: t, told: map[string]bool{}, occasional: map[string]bool{}}
	for _, file := range files {
		e.findLists(file)
	}
	for _, file := range files {
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
				e.followReasons(function)
			}
		}
	}
	values := golden.Constants(api, "Reason")
	var reasons []string
	for name := range e.told {
		reasons = append(reasons, values[name])
	}
	return reasons
}

type eventFinder struct {
	t          *testing.T
	told       map[string]bool // names of reasons
	occasional map[string]bool // names of conditions
}

func (e *eventFinder) findLists(file *ast.File) {
	ast.Inspect(file, func(node ast.Node) bool {
		assignment, ok := node.(*ast.AssignStmt)
		if !ok || len(assignment.Lhs) != 1 {
			return true
		}
		to := map[string]map[string]bool{"alarms": e.told, "occasional": e.occasional}[lastName(assignment.Lhs[0])]
		if list, ok := assignment.Rhs[0].(*ast.CompositeLit); ok && to != nil {
			for _, element := range list.Elts {
				to[lastName(element)] = true
			}
		}
		return true
	})
}

// followReasons notes each reason of a function that an event will have.
func (e *eventFinder) followReasons(function *ast.FuncDecl) {
	variables := reasonVariables(function)
	ast.PreorderStack(function.Body, nil, func(node ast.Node, stack []ast.Node) bool {
		expression, ok := node.(ast.Expr)
		if !ok {
			return true
		}
		names := reasonsOf(expression, variables)
		if len(names) == 0 {
			return true
		}
		switch parent := stack[len(stack)-1].(type) {
		case *ast.CallExpr:
			if e.isEvent(parent, expression) {
				e.tell(names)
			}
		case *ast.KeyValueExpr:
			if literal, ok := stack[len(stack)-2].(*ast.CompositeLit); ok && lastName(literal.Type) == "blockedError" {
				e.tell(names)
			}
		case *ast.AssignStmt, *ast.BinaryExpr, *ast.CompositeLit: // a variable, a comparison, a list of alarms
		default:
			e.t.Errorf("%s uses %v in a %T: teach this test whether that becomes an event", function.Name.Name, names, parent)
		}
		return false
	})
}

func (e *eventFinder) tell(names []string) {
	for _, name := range names {
		e.told[name] = true
	}
}

// isEvent reports whether a reason among the arguments of call becomes an event.
func (e *eventFinder) isEvent(call *ast.CallExpr, reason ast.Expr) bool {
	name, at := lastName(call.Fun), slices.Index(call.Args, reason)
	if index, ok := tellers()[name]; ok && index == at {
		return true
	}
	if index, ok := deciders()[name]; ok && index == at {
		return e.occasional[lastName(call.Args[0])]
	}
	e.t.Errorf("%s takes the reason %s: teach this test whether that becomes an event", name, lastName(reason))
	return false
}

// reasonsOf returns the names of the reasons that an expression may stand for; none for any other expression.
func reasonsOf(expression ast.Expr, variables map[string][]string) []string {
	if isReason(expression) {
		return []string{lastName(expression)}
	}
	if variable, ok := expression.(*ast.Ident); ok {
		return variables[variable.Name]
	}
	return nil
}

// reasonVariables returns the local variables that are assigned reasons, with the reasons' names.
func reasonVariables(function *ast.FuncDecl) map[string][]string {
	variables := map[string][]string{}
	ast.Inspect(function.Body, func(node ast.Node) bool {
		assignment, ok := node.(*ast.AssignStmt)
		if !ok || len(assignment.Lhs) != len(assignment.Rhs) {
			return true
		}
		for i, value := range assignment.Rhs {
			if isReason(value) {
				variable := lastName(assignment.Lhs[i])
				variables[variable] = append(variables[variable], lastName(value))
			}
		}
		return true
	})
	return variables
}

func isReason(expression ast.Expr) bool {
	selector, ok := expression.(*ast.SelectorExpr)
	return ok && lastName(selector.X) == "v1alpha1" && strings.HasPrefix(selector.Sel.Name, "Reason")
}

// lastName returns the name of an identifier, or of the field or function that a selector ends in.
func lastName(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name
	case *ast.SelectorExpr:
		return expression.Sel.Name
	default:
		return ""
	}
}
