package jsonl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/content"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/importer"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func importSet(t *testing.T, options importer.Options) importer.Report {
	t.Helper()
	options.At = "2026-03-01T12:00:00Z"
	report, err := Import(t.Context(), options)
	check.NoError(t, err)
	return report
}

func load(t *testing.T, paths ...string) *content.Files {
	t.Helper()
	bundle, err := content.Load(t.Context(), nil, paths...)
	check.NoError(t, err)
	return bundle
}

func TestImportOfRealPapers(t *testing.T) {
	t.Parallel()
	for _, set := range catalogtest.SampledSets(t) {
		t.Run(filepath.Base(set), func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			report := importSet(t, importer.Options{From: set, Out: out, Seal: true})
			if len(report.Ignored) > 0 {
				t.Errorf("fields of the documented format were ignored: %v", report.Ignored)
			}
			bundle := load(t, out)
			lint, err := content.Lint(t.Context(), bundle, content.LintOptions{})
			check.NoError(t, err)
			check.Equal(t, lint.Questions, checkQuestions(t, set, bundle), "questions that lint counts")
			checkSeals(t, bundle)
			checkSizes(t, out)
			checkAcceptance(t, out)
		})
	}
}

// checkQuestions compares every question with an independent read of the input, and counts them.
func checkQuestions(t *testing.T, set string, bundle *content.Files) (count int) {
	t.Helper()
	want := independentRead(t, set)
	for i := range bundle.Contents {
		exam, err := assemble.Assemble(t.Context(), &bundle.Contents[i].ExamContent, bundle)
		check.NoError(t, err)
		for _, paper := range exam.Exam().Papers {
			count += len(paper.Questions)
			compareQuestions(t, paper, want[paper.ID])
			delete(want, paper.ID)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d papers are missing", len(want))
	}
	return count
}

func checkSeals(t *testing.T, bundle *content.Files) {
	t.Helper()
	digests, err := content.Digest(t.Context(), bundle, content.DigestOptions{})
	check.NoError(t, err)
	for _, seal := range digests.Papers {
		if !seal.Matches {
			t.Errorf("%s: the seal does not match", seal.PaperID)
		}
	}
}

// checkSizes makes sure that every object fits into the annotation in which `kubectl apply` keeps it.
func checkSizes(t *testing.T, folder string) {
	t.Helper()
	for name, text := range readFolder(t, folder) {
		var object any
		check.Succeeds(t, sigsyaml.UnmarshalStrict([]byte(text), &object), "%s", name)
		if size := len(testkit.Encode(t, object)); size > importer.DefaultObjectBytes {
			t.Errorf("%s takes %d bytes, more than %d", name, size, importer.DefaultObjectBytes)
		}
	}
}

// checkAcceptance sends every object of a folder to a real API server, as a dry run in a namespace of its own.
func checkAcceptance(t *testing.T, folder string) {
	t.Helper()
	api, namespace := clustertest.Client(t), clustertest.Namespace(t)
	for name, text := range readFolder(t, folder) {
		var object unstructured.Unstructured
		check.NoError(t, sigsyaml.Unmarshal([]byte(text), &object.Object))
		if object.GetAPIVersion() == kustomizeVersion {
			continue
		}
		object.SetNamespace(namespace)
		validation := &client.CreateOptions{DryRun: []string{metav1.DryRunAll}, Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}}
		check.Succeeds(t, api.Create(t.Context(), &object, validation), "%s", name)
	}
}

func TestAnAPIServerAcceptsTheSamples(t *testing.T) {
	t.Parallel()
	checkAcceptance(t, "../../../config/samples")
}

const kustomizeVersion = "kustomize.config.k8s.io/v1beta1"

// independentRead reads questions without this package's types.
func independentRead(t *testing.T, set string) map[string][]map[string]any {
	t.Helper()
	papers := make(map[string][]map[string]any)
	for _, question := range catalogtest.Lines[map[string]any](t, filepath.Join(set, "questions.jsonl")) {
		id, _ := question["paper_id"].(string)
		papers[id] = append(papers[id], question)
	}
	return papers
}

func compareQuestions(t *testing.T, paper catalog.Paper, want []map[string]any) {
	t.Helper()
	if len(paper.Questions) != len(want) {
		t.Errorf("%s: %d questions, want %d", paper.ID, len(paper.Questions), len(want))
		return
	}
	for i, question := range paper.Questions {
		have := neutralView(paper.ID, question)
		if !reflect.DeepEqual(have, want[i]) {
			t.Fatalf("%s question %d:\nhave %v\nwant %v", paper.ID, i, have, want[i])
		}
	}
}

// neutralView writes a question of the catalogue in the input's form.
func neutralView(paperID string, question catalog.Question) map[string]any {
	orNull := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	view := map[string]any{
		"paper_id": paperID, "section": float64(question.Section), "section_name": orNull(question.SectionName),
		"number": float64(question.Number), "prompt": question.Prompt, "options": nil,
		"explanation": orNull(question.Explanation), "page": nil, "has_visual": question.HasVisual,
		"topic": orNull(question.Topic),
	}
	if question.Options != nil {
		options := make(map[string]any)
		for letter, text := range question.Options {
			options[letter] = text
		}
		view["options"] = options
	}
	answer := map[string]any{"kind": string(question.Answer.Kind)}
	switch question.Answer.Kind {
	case catalog.AnswerChoice:
		answer["value"] = question.Answer.Choices[0]
	case catalog.AnswerChoices:
		var letters []any
		for _, letter := range question.Answer.Choices {
			letters = append(letters, letter)
		}
		answer["value"] = letters
	case catalog.AnswerNumeric:
		answer["value"], answer["tolerance"] = question.Answer.Number, any(question.Answer.Tolerance)
		if question.Answer.Tolerance == 0 {
			answer["tolerance"] = nil
		}
	case catalog.AnswerText:
		answer["value"] = question.Answer.Text
	default:
	}
	view["answer"] = answer
	return view
}

func TestImportIsDeterministic(t *testing.T) {
	t.Parallel()
	set := catalogtest.Sets(t)[0]
	for _, other := range catalogtest.Sets(t) {
		if filepath.Base(other) == "jeebench" {
			set = other // the smallest
		}
	}
	first, second := t.TempDir(), t.TempDir()
	importSet(t, importer.Options{From: set, Out: first, Seal: true})
	importSet(t, importer.Options{From: set, Out: second, Seal: true})
	importSet(t, importer.Options{From: set, Out: second, Seal: true}) // over itself
	if !reflect.DeepEqual(readFolder(t, first), readFolder(t, second)) {
		t.Error("two imports of the same input differ")
	}
}

func readFolder(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, readErr := os.ReadFile(name)
		relative, relErr := filepath.Rel(folder, name)
		files[relative] = string(text)
		return errors.Join(readErr, relErr)
	})
	check.NoError(t, err)
	return files
}
