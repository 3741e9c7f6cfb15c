package golden

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestConstantsAreThoseOfThePackageWithThePrefix(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.go":      "package a\nconst CodeOne = \"one\"\nconst (\n\tCodeTwo, CodeThree = \"two\", `three`\n\tOther = \"other\"\n\tCodeNumber = 4\n)\nvar CodeVariable = \"variable\"\n",
		"a_test.go": "package a\nconst CodeOfTest = \"test\"\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"CodeOne": "one", "CodeTwo": "two", "CodeThree": "three"}
	if got := Constants(Parse(t, folder), "Code"); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
