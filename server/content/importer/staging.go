package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// importedMark begins the files that Import writes, and may therefore remove.
const importedMark = "Written by `examprep content import`."

// staging holds the files of an import until all of them are complete. It is a folder in the output, so that a rename moves a file.
type staging struct {
	out, folder string
	// made are the folders that the import had to create for the output, the outermost first.
	made  []string
	files []string
}

func newStaging(out string) (*staging, error) {
	s := &staging{out: out}
	for folder := filepath.Clean(out); ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		s.made = append([]string{folder}, s.made...)
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // manifests are for everyone to read
		return nil, fmt.Errorf("import: %w", err)
	}
	folder, err := os.MkdirTemp(out, ".examprep-import-*")
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	s.folder = folder
	return s, nil
}

// add writes a file, by its name below the output.
func (s *staging) add(name string, text []byte) error {
	staged := filepath.Join(s.folder, name)
	if err := os.MkdirAll(filepath.Dir(staged), 0o755); err != nil { //nolint:gosec // manifests are for everyone to read
		return fmt.Errorf("import: %w", err)
	}
	if err := os.WriteFile(staged, text, 0o644); err != nil { //nolint:gosec // manifests are for everyone to read
		return fmt.Errorf("import: %w", err)
	}
	s.files = append(s.files, name)
	return nil
}

// commit moves all files to the output, and removes files of an earlier import from the same folders. It does not stop in between.
func (s *staging) commit() (removed []string, err error) {
	s.made = nil
	for _, name := range s.files {
		target := filepath.Join(s.out, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { //nolint:gosec // manifests are for everyone to read
			return nil, fmt.Errorf("import: %w", err)
		}
		if err := os.Rename(filepath.Join(s.folder, name), target); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
	}
	return s.removeStale()
}

func (s *staging) removeStale() (removed []string, err error) {
	current := make(map[string]bool, len(s.files))
	for _, name := range s.files {
		current[filepath.Join(s.out, name)] = true
	}
	for _, name := range s.files {
		if filepath.Dir(name) != "." {
			continue
		}
		folder := filepath.Join(s.out, strings.TrimSuffix(name, ".yaml"))
		stale, err := filepath.Glob(filepath.Join(escapeGlob(folder), "*.yaml"))
		if err != nil {
			return removed, fmt.Errorf("import: %w", err)
		}
		for _, name := range stale {
			if current[name] || !isImported(name) {
				continue
			}
			if err := os.Remove(name); err != nil {
				return removed, fmt.Errorf("import: %w", err)
			}
			removed = append(removed, name)
		}
	}
	return removed, nil
}

// discard removes the staged files. If nothing was moved, it also removes the folders that were created.
func (s *staging) discard(err error) error {
	failed := os.RemoveAll(s.folder)
	for _, folder := range slices.Backward(s.made) {
		failed = errors.Join(failed, os.Remove(folder))
	}
	return errors.Join(err, failed)
}

func escapeGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

func isImported(name string) bool {
	text, err := os.ReadFile(name) //nolint:gosec // a file below the folder that the user named
	return err == nil && bytes.HasPrefix(text, []byte("# "+importedMark))
}
