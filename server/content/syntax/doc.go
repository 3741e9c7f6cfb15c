// Package syntax reads YAML and JSON as kubectl does, and finds the line of each value.
//
// Values are read as kubectl reads them (sigs.k8s.io/yaml, YAML 1.1: `NO` is false). Positions come from a syntax tree. The package
// reports text that readers of YAML read as different values, and numbers that lose digits.
package syntax
