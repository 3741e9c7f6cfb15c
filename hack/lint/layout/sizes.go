package main

import (
	"fmt"
	"slices"
)

// What is large enough to be two things. Files and packages count without tests and generated code.
const (
	maxFileLines    = 399
	maxPackageLines = 1999
	maxMethods      = 20
)

// checkSizes returns the files, packages and types that are too large.
func checkSizes(sources []source) []finding {
	var findings []finding
	packages, methods := map[string]int{}, map[string][]string{}
	for _, s := range sources {
		if s.test || s.generated {
			continue
		}
		if s.lines > maxFileLines {
			findings = append(findings, finding{"file " + s.name, fmt.Sprintf("%d lines; at most %d", s.lines, maxFileLines)})
		}
		packages[s.folder] += s.lines
		for receiver, names := range s.methods {
			name := s.folder + "." + receiver
			methods[name] = append(methods[name], names...)
		}
	}
	for name, lines := range packages {
		if lines > maxPackageLines {
			findings = append(findings, finding{"package " + name, fmt.Sprintf("%d lines; at most %d", lines, maxPackageLines)})
		}
	}
	for name, all := range methods {
		slices.Sort(all)
		if count := len(slices.Compact(all)); count > maxMethods { // files for several systems have the same methods
			findings = append(findings, finding{"type " + name, fmt.Sprintf("%d methods; at most %d", count, maxMethods)})
		}
	}
	return findings
}
