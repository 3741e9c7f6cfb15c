package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"examprep.dev/hack/npm"
)

// runNPM runs a program that one of the packages of hack/npm brings, such as redocly, here.
func runNPM(ctx context.Context, root string, command []string, c *console) error {
	packages, err := npm.Install(ctx, c)
	if err != nil {
		return err
	}
	return runCommand(ctx, root, append([]string{packages.Program(command[0])}, command[1:]...), packages.Environment())
}

// usesNPM tells whether one of the packages to be tested has tests that run a program of hack/npm. What does not say
// which packages it tests, or cannot be listed, is taken to.
func usesNPM(ctx context.Context, root string, command []string) bool {
	isPattern := func(arg string) bool { return arg == "." || strings.HasPrefix(arg, "./") }
	patterns := slices.DeleteFunc(slices.Clone(command), func(arg string) bool { return !isPattern(arg) })
	if len(patterns) == 0 {
		return true
	}
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-f", "{{.Dir}}", "--"}, patterns...)...)
	list.Dir = root
	dirs, err := list.Output()
	if err != nil {
		return true // the command will say what is wrong
	}
	return slices.ContainsFunc(strings.Fields(string(dirs)), testsWithNPM)
}

// testsWithNPM looks for the name of the variable in a package's tests.
func testsWithNPM(dir string) bool {
	tests, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // a name that makes the pattern malformed has no packages
	return slices.ContainsFunc(tests, func(name string) bool {
		text, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(text), testNPM)
	})
}
