package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Tests of hack/chart check the containers: each has variables of the command that it runs.
func TestTextsNameVariablesOfFlags(t *testing.T) {
	known, name, seen := flagVariables(newRoot(patient())), regexp.MustCompile(`\bEXAMPREP_[A-Z0-9_]*`), 0
	for _, root := range []string{"../../README.md", "../../docs", "../../config", "../../charts/examprep"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range name.FindAllString(string(text), -1) {
				seen++
				if known[found] != found {
					t.Errorf("%s names %s, which is the variable of no flag", path, found)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 40 {
		t.Errorf("%d names: the test does not see them", seen)
	}
}
