package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ProjectRoot is the directory of the project's go.mod, at or above the working directory.
func ProjectRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the project: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module examprep.dev\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run it inside the project")
		}
		dir = parent
	}
}
