package jsonl

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"examprep.dev/server/content"
	"examprep.dev/server/content/importer"
	"examprep.dev/server/testkit/check"
)

func TestListOfProblemsHasALimit(t *testing.T) {
	t.Parallel()
	unknown := strings.Replace(fmt.Sprintf(oneQuestion, 1), "a-b-2013", "unknown", 1) + "\n"
	for name, text := range map[string]string{"of references": unknown, "of the form": "{\n"} {
		from := neutralFolder(t, oneExam, onePaper+"\n", strings.Repeat(text, maxProblems+2000))
		report, err := Import(t.Context(), importer.Options{From: from, Out: t.TempDir()})
		check.Equal(t, len(report.Problems), maxProblems+1, "problems %s (%v)", name, err != nil)
		check.Contains(t, report.Problems[maxProblems].Detail, "more than 10000 problems", "the last problem")
	}
}

func TestFilesHaveALimit(t *testing.T) {
	t.Parallel()
	from := neutralFolder(t, oneExam, "", "")
	for _, limit := range []int64{int64(len(oneExam)), int64(len(oneExam)) - 1} {
		text, err := readExams(filepath.Join(from, "exams.json"), limit)
		check.NoError(t, err)
		check.Equal(t, text != nil, limit == int64(len(oneExam)), "is read with a limit of %d bytes", limit)
	}
	r := records[neutralQuestion]{file: "f"}
	lines := 0
	source := &limited{source: strings.NewReader(strings.Repeat("{}\n", 100_000)), left: 200_000}
	check.NoError(t, r.scan(t.Context(), source, func(record[neutralQuestion]) { lines++ }))
	if lines == 0 || lines > 200_000/3 {
		t.Errorf("read %d lines", lines)
	}
	check.Equal(t, len(r.problems), 1, "problems")
	check.Contains(t, r.problems[0].Detail, "is larger than 256 MiB", "the problem")
}

func TestPapersAndUnknownFieldsHaveALimit(t *testing.T) {
	t.Parallel()
	from := neutralFolder(t, oneExam, onePaper+"\n", "")
	r := &reader{folder: from, papers: make(map[string]*readPaper), ignored: make(map[string]int)}
	for i := range maxPapers {
		r.papers[fmt.Sprint(i)] = &readPaper{}
	}
	check.NoError(t, r.readPapers(t.Context()))
	check.Equal(t, len(r.papers), maxPapers, "papers")
	check.Contains(t, (&content.ProblemsError{Problems: r.problems}).Error(), "more than 100000 papers", "the problem")

	found := records[neutralPaper]{file: "f"}
	var text strings.Builder
	for i := range 3 * maxIgnored {
		fmt.Fprintf(&text, "{\"x%d\":1}\n", i)
	}
	check.NoError(t, found.scan(t.Context(), strings.NewReader(text.String()), func(record[neutralPaper]) {}))
	check.Equal(t, len(found.ignored), maxIgnored+1, "names")
	check.Equal(t, found.ignored["f: other fields"], 2*maxIgnored, "other fields")
}
