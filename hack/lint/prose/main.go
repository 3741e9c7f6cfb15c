package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// offendersFile lists the files whose findings are not reported, one path a line, sorted.
const offendersFile = "hack/lint/prose-offenders.txt"

func main() {
	root := flag.String("root", ".", "folder of the repository")
	all := flag.Bool("all", false, "print the findings of all files, those of "+offendersFile+" included")
	flag.Parse()
	if err := run(context.Background(), *root, *all, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

// run prints the findings, one a line. It returns an error if there are any.
func run(ctx context.Context, root string, all bool, to io.Writer) error {
	listed, err := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	tracked := strings.Split(strings.TrimSuffix(string(listed), "\x00"), "\x00")
	var offenders []string
	if !all {
		text, err := os.ReadFile(filepath.Join(root, offendersFile))
		if err != nil {
			return err
		}
		offenders = strings.Fields(string(text))
	}
	findings, err := check(os.DirFS(root), tracked, offenders)
	if err != nil {
		return err
	}
	for _, f := range findings {
		fmt.Fprintln(to, f)
	}
	if len(findings) > 0 {
		return fmt.Errorf("%d findings; hack/lint/prose has the rules", len(findings))
	}
	return nil
}

// check returns the findings of the files that are not offenders, and what is wrong with the list of offenders.
func check(root fs.FS, tracked, offenders []string) ([]string, error) {
	c, found := newChecker(), make([][]string, len(tracked))
	var checks sync.WaitGroup
	for i, name := range tracked {
		text, err := fs.ReadFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			return nil, err
		}
		checks.Go(func() { found[i] = c.check(name, string(text)) })
	}
	checks.Wait()
	var findings []string
	for i, name := range tracked {
		if !slices.Contains(offenders, name) {
			findings = append(findings, found[i]...)
		}
	}
	for i, name := range offenders {
		switch at := slices.Index(tracked, name); {
		case i > 0 && name <= offenders[i-1]:
			findings = append(findings, fmt.Sprintf("%s: %s is not in order: sort the list, each path once", offendersFile, name))
		case at < 0:
			findings = append(findings, fmt.Sprintf("%s: %s does not exist: remove it from the list", offendersFile, name))
		case len(found[at]) == 0:
			findings = append(findings, fmt.Sprintf("%s: %s has no findings: remove it from the list", offendersFile, name))
		}
	}
	return findings, nil
}
