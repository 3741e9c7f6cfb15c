package baseline

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

func TestBaselineImportsNothingOfTheProduct(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 2 {
		t.Fatalf("files %q, %v", files, err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if strings.Contains(spec.Path.Value, "examprep.dev/") {
				t.Errorf("%s imports %s", file, spec.Path.Value)
			}
		}
	}
}

func TestPaperRowsHaveOneRowPerPaperAndEscapeText(t *testing.T) {
	question := Question{Section: 1, Number: 1, Prompt: "a\tb \"c\"\n", Options: map[string]string{"B": "x", "A": "y"}, Choice: "A"}
	rows, keys, err := PaperRows("exam", []Paper{{ID: "p1", Questions: []Question{question}}, {ID: "p2"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]struct {
		rows   []byte
		fields int
	}{"papers": {rows, 12}, "keys": {keys, 3}} {
		lines := strings.Split(strings.TrimSuffix(string(text.rows), "\n"), "\n")
		if len(lines) != 2 {
			t.Errorf("%s: %d rows, want 2", name, len(lines))
		}
		for _, line := range lines {
			if got := len(strings.Split(line, "\t")); got != text.fields {
				t.Errorf("%s: %d fields, want %d: %q", name, got, text.fields, line)
			}
		}
	}
	if !strings.HasPrefix(string(keys), `exam`+"\t"+`\\x`) || !strings.Contains(string(rows), `a\\tb \\"c\\"\\n`) {
		t.Errorf("backslashes are not escaped: %q, %q", keys, rows)
	}
}
