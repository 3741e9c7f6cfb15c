package importer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/progress"
	"examprep.dev/server/content/syntax"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// oneExam is an input of an exam with a paper of 300 questions, which needs a ConfigMap.
func oneExam(context.Context) (*Input, error) {
	paper := v1alpha1.Paper{
		PaperID: "es-mir-2013", Title: "MIR 2013", Year: 2013,
		Provenance: v1alpha1.Provenance{Publisher: "p", SourceURL: "https://example.com", License: "l"},
	}
	for n := range int32(300) {
		paper.Questions = append(paper.Questions, v1alpha1.Question{Number: n + 1, Section: 1, Prompt: "p", Answer: v1alpha1.Answer{Annulled: true}})
	}
	exam := Exam{Spec: v1alpha1.ExamContentSpec{ExamKey: "es-mir", Name: "MIR", Papers: []v1alpha1.Paper{paper}}}
	return &Input{
		Exams: []Exam{exam, {Spec: v1alpha1.ExamContentSpec{ExamKey: "es-eir", Name: "EIR", Papers: []v1alpha1.Paper{paper}}}},
		Place: func(int, syntax.Path) (syntax.Position, string) { return syntax.Position{File: "f"}, "" },
	}, nil
}

// interrupter cancels a context when a step has so many units done.
type interrupter struct {
	step, current string
	left          int64
	cancel        context.CancelFunc
}

func (i *interrupter) Start(step string, _ int64, _ progress.Unit) { i.current = step; i.Add(0) }
func (*interrupter) Done()                                         {}
func (i *interrupter) Add(n int64) {
	if i.current != i.step {
		return
	}
	if i.left -= n; i.left <= 0 {
		i.cancel()
	}
}

func TestAnInterruptedImportWritesNothing(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]interrupter{
		"checking": {step: "checking"}, "writing": {step: "writing"}, "after the first exam": {step: "writing", left: 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			at.cancel = cancel
			folder := t.TempDir()
			out, old := filepath.Join(folder, "a", "b"), filepath.Join(folder, "old")
			check.NoError(t, os.Mkdir(old, 0o750))
			testkit.WriteFile(t, filepath.Join(old, "es-mir.yaml"), []byte("old"))
			for _, out := range []string{out, old} {
				_, err := Import(progress.With(ctx, &at), Options{Out: out}, oneExam)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("have %v", err)
				}
			}
			left, err := os.ReadDir(folder)
			check.NoError(t, err)
			check.Equal(t, len(left), 1, "folders")
			left, err = os.ReadDir(old)
			check.NoError(t, err)
			check.Equal(t, len(left), 1, "files")
			check.Equal(t, string(testkit.ReadFile(t, filepath.Join(old, "es-mir.yaml"))), "old", "file")
		})
	}
}

func TestImportLeavesNoOtherFiles(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	report, err := Import(t.Context(), Options{Out: out}, oneExam)
	check.NoError(t, err)
	check.Equal(t, len(report.Exams), 2, "exams")
	var names []string
	check.NoError(t, filepath.WalkDir(out, func(name string, entry os.DirEntry, err error) error {
		if !entry.IsDir() {
			relative, _ := filepath.Rel(out, name)
			names = append(names, relative)
		}
		return err
	}))
	check.Slices(t, names, []string{"es-eir/es-mir-2013-01.yaml", "es-eir.yaml", "es-mir/es-mir-2013-01.yaml", "es-mir.yaml"}, "files")
}
