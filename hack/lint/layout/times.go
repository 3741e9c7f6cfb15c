package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// timesFile lists the test files that pass a literal time to a limit, one a line: PATH COUNT REASON.
const timesFile = "hack/lint/times.txt"

// allowedTimes is a line of timesFile.
type allowedTimes struct{ line, count int }

// parseTimes reads timesFile. Empty lines and lines that begin with # are comments.
func parseTimes(text string) (map[string]allowedTimes, error) {
	allowed := map[string]allowedTimes{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 3 {
			return nil, fmt.Errorf("line %d: %q is not PATH COUNT REASON", number, strings.TrimSpace(line))
		}
		count, err := strconv.Atoi(fields[1])
		if err != nil || count < 1 {
			return nil, fmt.Errorf("line %d: %q is not a number of literals", number, fields[1])
		}
		if first, repeated := allowed[fields[0]]; repeated {
			return nil, fmt.Errorf("line %d: %s is in line %d too", number, fields[0], first.line)
		}
		allowed[fields[0]] = allowedTimes{number, count}
	}
	return allowed, nil
}

// checkTimes returns the tests whose literal times are not those of the list. Such a test depends on the machine's speed
// unless there is a reason: a limit that must not act is testkit.Patience, and one that must act has a clock.
func checkTimes(sources []source, allowed map[string]allowedTimes) []finding {
	var findings []finding
	found := map[string]bool{}
	for _, s := range sources {
		if len(s.times) == 0 {
			continue
		}
		found[s.name] = true
		if listed := allowed[s.name].count; listed != len(s.times) {
			findings = append(findings, finding{"times " + s.name, fmt.Sprintf(
				"%d literal times are passed to limits, in lines %s; %s lists %d. Use testkit.Patience, a clock or testing/synctest",
				len(s.times), strings.Trim(fmt.Sprint(s.times), "[]"), timesFile, listed)})
		}
	}
	for name, listed := range allowed {
		if !found[name] {
			findings = append(findings, finding{"times " + name, fmt.Sprintf("passes no literal time; remove line %d of %s", listed.line, timesFile)})
		}
	}
	return findings
}

// literalTimes returns the lines that pass a literal of minutes, seconds or milliseconds to a limit. Those in a bubble of
// testing/synctest do not count: its clock is not the machine's.
func literalTimes(file *ast.File, files *token.FileSet) []int {
	var lines []int
	var above []ast.Node
	ast.Inspect(file, func(node ast.Node) bool {
		if node == nil {
			above = above[:len(above)-1]
			return true
		}
		if isUnit(node) && limits(above, node) {
			lines = append(lines, files.Position(node.Pos()).Line)
		}
		above = append(above, node)
		return true
	})
	return slices.Compact(lines)
}

func isUnit(node ast.Node) bool {
	selector, ok := node.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"time.Minute", "time.Second", "time.Millisecond"}, nameOf(selector))
}

// limits reports whether an expression below some nodes becomes a limit: it is passed to a function, or assigned to a field
// or variable, with the name of one.
func limits(above []ast.Node, below ast.Node) (isLimit bool) {
	outside := false // of a function literal
	for _, node := range slices.Backward(above) {
		if call, ok := node.(*ast.CallExpr); ok && nameOf(call.Fun) == "synctest.Test" {
			return false
		}
		_, isFunction := node.(*ast.FuncLit)
		outside = outside || isFunction
		isLimit = isLimit || !outside && slices.ContainsFunc(takers(node, below), isLimitName)
		below = node
	}
	return isLimit
}

// takers returns the names of the function, field or variables that take the value of a part of a node.
func takers(node, part ast.Node) (names []string) {
	switch node := node.(type) {
	case *ast.CallExpr:
		if part != node.Fun {
			names = append(names, nameOf(node.Fun))
		}
	case *ast.KeyValueExpr:
		names = append(names, nameOf(node.Key))
	case *ast.AssignStmt:
		for _, left := range node.Lhs {
			names = append(names, nameOf(left))
		}
	case *ast.ValueSpec:
		for _, name := range node.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// nameOf returns the name of a function, field or variable with that of its package or value: "time.After".
func nameOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return nameOf(e.X) + "." + e.Sel.Name
	}
	return ""
}

// isLimitName reports whether a name is one of a limit of time. Only package time's After waits; that of a time compares.
func isLimitName(name string) bool {
	last := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	switch last {
	case "withtimeout", "withdeadline", "newtimer", "within", "sleep", "patience":
		return true
	case "after", "afterfunc":
		return strings.HasPrefix(name, "time.")
	}
	return strings.HasSuffix(last, "timeout") || strings.HasSuffix(last, "limit") || strings.HasSuffix(last, "interval")
}
