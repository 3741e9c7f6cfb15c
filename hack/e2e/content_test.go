//go:build e2e

package e2e

import (
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit/check"
)

// contentBecomesReady imports and seals the sets, applies them with kubectl, and finds every exam Ready and listed with
// all of its papers.
func contentBecomesReady(t *testing.T, s *stack, papers []*crowdtest.Paper) {
	out := t.TempDir()
	for _, set := range dataSets {
		s.examprep(t, "content", "import", "--format", "jsonl", "--from", filepath.Join(*dataDir, set),
			"--out", filepath.Join(out, set), "--seal", "--namespace", namespace)
	}
	began := time.Now()
	// Server-side, for a client-side apply would copy each resource into an annotation of at most 256 KiB.
	s.kubectl(t, "", "apply", "--server-side", "--force-conflicts", "--recursive", "-f", out)
	applied := time.Now()
	s.kubectl(t, "", "wait", "--for=condition=Ready", "examcontents", "--all", "-n", namespace, "--timeout=180s")
	t.Logf("applied %d papers in %s; all Ready %s later", len(papers), applied.Sub(began).Round(time.Millisecond),
		time.Since(applied).Round(time.Millisecond))

	byExam := map[string][]*crowdtest.Paper{}
	for _, p := range papers {
		byExam[p.Exam] = append(byExam[p.Exam], p)
	}
	for exam, own := range byExam {
		eventually(t, 10*time.Second, exam+" to be served with all papers", func() bool {
			return slices.Equal(s.catalogue(t, exam), paperLines(own))
		})
	}
}

type paperLine struct {
	ID    string `json:"paper_id"`
	Count int    `json:"question_count"`
}

func paperLines(papers []*crowdtest.Paper) []paperLine {
	var lines []paperLine
	for _, p := range papers {
		lines = append(lines, paperLine{p.ID, len(p.Questions)})
	}
	return sortLines(lines)
}

func sortLines(lines []paperLine) []paperLine {
	slices.SortFunc(lines, func(a, b paperLine) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return lines
}

// catalogue returns the papers of an exam as the API lists them; none while the exam is not served.
func (s *stack) catalogue(t *testing.T, exam string) []paperLine {
	t.Helper()
	var catalog struct {
		Total int `json:"total_papers"`
		Years []struct {
			Papers []paperLine `json:"papers"`
		} `json:"years"`
	}
	if err := s.api.Call(t.Context(), crowdtest.OpCatalog, http.MethodGet, crowdtest.Path(exam, "/mock-exams"), nil, &catalog); err != nil {
		return nil
	}
	var lines []paperLine
	for _, year := range catalog.Years {
		lines = append(lines, year.Papers...)
	}
	check.Equal(t, len(lines), catalog.Total, "%s: papers listed", exam)
	return sortLines(lines)
}
