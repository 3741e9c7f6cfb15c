package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// exceptionsFile is the list of exceptions, from the root.
const exceptionsFile = "hack/lint/exceptions.txt"

func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	if err := run(os.DirFS(*root), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "layout:", err)
		os.Exit(1)
	}
}

// run prints what breaks a rule and has no exception, one a line. It returns an error if there is any.
func run(root fs.FS, to io.Writer) error {
	findings, err := check(root)
	if err != nil {
		return err
	}
	for _, f := range findings {
		fmt.Fprintln(to, f)
	}
	if len(findings) > 0 {
		return fmt.Errorf("%d findings; the rules are in hack/lint/layout, exceptions with reasons in %s", len(findings), exceptionsFile)
	}
	return nil
}

func check(root fs.FS) ([]finding, error) {
	text, err := fs.ReadFile(root, exceptionsFile)
	if err != nil {
		return nil, err
	}
	exceptions, err := parseExceptions(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", exceptionsFile, err)
	}
	text, err = fs.ReadFile(root, timesFile)
	if err != nil {
		return nil, err
	}
	times, err := parseTimes(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", timesFile, err)
	}
	sources, err := readSources(root)
	if err != nil {
		return nil, err
	}
	findings := apply(exceptions, append(checkSizes(sources), checkImports(sources)...))
	return sorted(append(findings, checkTimes(sources, times)...)), nil
}
