//go:build e2e

package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const fixture = "e2e-fixture"

type wrongResource struct {
	name string
	// edit makes the wrong resource out of the right one.
	edit func(yaml string) string
	// names must stand in what kubectl or the conditions say.
	names []string
}

var wrongResources = []wrongResource{
	{"an answer that is not among the options", replace("answer: {choice: B}", "answer: {choice: E}"), []string{"questions[1]", "answer"}},
	{"the same section and number twice", replace("number: 2", "number: 1"), []string{"questions[1]", "number"}},
	{"no provenance", cut("      provenance:\n", "      questions:\n"), []string{"papers[0]", "provenance"}},
	{"a chunk that does not exist", questionsFromNowhere, []string{"papers[0]", "questionsFrom[0]", "e2e-missing"}},
	{"a chunk with an answer that is not among the options", chunked("answer: {choice: B}", "answer: {choice: E}"), []string{"questionsFrom[0]", "e2e-chunk", "question 1:2", "answer"}},
	{"a chunk with the same section and number twice", chunked("number: 2", "number: 1"), []string{"questionsFrom[0]", "e2e-chunk", "question 1:1", "number"}},
	{"another claimant of the exam key", replace("namespace: "+namespace, "namespace: "+rivalNamespace), []string{"exam", fixture, namespace + "/" + fixture}},
}

// chunkAwaited is what the operator says while a chunk that was applied after its exam is not there yet.
const chunkAwaited = "ConfigMap e2e/e2e-chunk not found"

// wrongResourcesChangeNothing applies each wrong resource over the right one. Either the API server refuses it, or its
// conditions do; both name the field, and what is served stays the same to the byte.
func wrongResourcesChangeNothing(t *testing.T, s *stack) {
	right := readFixture(t)
	s.applyReady(t, right)
	eventually(t, 10*time.Second, "the fixture to be served", func() bool { return len(s.catalogue(t, fixture)) == 1 })
	before := s.served(t)
	for _, wrong := range wrongResources {
		t.Run(wrong.name, func(t *testing.T) {
			yaml := wrong.edit(right)
			if yaml == right {
				t.Fatal("the variant does not differ")
			}
			said := s.refusal(t, yaml)
			for _, name := range wrong.names {
				if !strings.Contains(said, name) {
					t.Errorf("%q is not named in: %s", name, said)
				}
			}
			t.Logf("refused: %s", said)
			check.Equal(t, s.served(t), before, "what is served has changed")
			if strings.Contains(yaml, rivalNamespace) {
				s.kubectl(t, "", "delete", "examcontent", fixture, "-n", rivalNamespace, "--timeout=60s")
			} else {
				s.applyReady(t, right)
			}
			check.Equal(t, s.served(t), before, "what is served has changed after the wrong resource went")
		})
	}
}

func readFixture(t *testing.T) string {
	t.Helper()
	text := testkit.ReadFile(t, filepath.Join("testdata", "exam.yaml"))
	return string(text)
}

func (s *stack) applyReady(t *testing.T, yaml string) {
	t.Helper()
	s.kubectl(t, yaml, "apply", "-f", "-")
	eventually(t, time.Minute, "the fixture to be Ready", func() bool {
		c := s.conditions(t, namespace)
		return c.current() && c.status("Ready") == "True"
	})
}

// refusal applies a wrong resource and returns what kubectl says, or what the conditions say once the operator has seen
// it.
func (s *stack) refusal(t *testing.T, yaml string) string {
	t.Helper()
	if _, err := s.tryKubectl(t, yaml, "apply", "-f", "-"); err != nil {
		return err.Error()
	}
	ns := namespace
	if strings.Contains(yaml, rivalNamespace) {
		ns = rivalNamespace
	}
	var said string
	eventually(t, time.Minute, "the operator to refuse the resource", func() bool {
		c := s.conditions(t, ns)
		said = c.String()
		return c.current() && c.status("Ready") == "False" && !strings.Contains(said, chunkAwaited)
	})
	return said
}

type examConditions struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		Revision           int64 `json:"revision"`
		Conditions         []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

func (s *stack) conditions(t *testing.T, ns string) examConditions {
	t.Helper()
	var found examConditions
	decode(t, s.kubectl(t, "", "get", "examcontent", fixture, "-n", ns, "-o", "json"), &found)
	return found
}

// current tells that the operator speaks of what was applied last. It may still be trying: a chunk can turn up.
func (c examConditions) current() bool { return c.Status.ObservedGeneration == c.Metadata.Generation }

func (c examConditions) status(kind string) string {
	for _, condition := range c.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return ""
}

func (c examConditions) String() string {
	var lines []string
	for _, condition := range c.Status.Conditions {
		if condition.Status == "False" || condition.Type == "Stalled" {
			lines = append(lines, condition.Type+"="+condition.Status+" "+condition.Reason+": "+condition.Message)
		}
	}
	return strings.Join(lines, "; ")
}

// served is everything of the fixture that clients can read.
func (s *stack) served(t *testing.T) string {
	t.Helper()
	var overview, catalogue []byte
	for path, into := range map[string]*[]byte{"/overview": &overview, "/mock-exams": &catalogue} {
		check.NoError(t, s.api.Call(t.Context(), crowdtest.OpOverview, http.MethodGet, crowdtest.Path(fixture, path), nil, into))
	}
	var questions []byte
	check.NoError(t, s.api.Call(t.Context(), crowdtest.OpPage, http.MethodPost, crowdtest.Path(fixture, "/mock-exams/questions"),
		map[string]any{"paper_id": fixture + "-2020", "question_limit": crowdtest.PageSize}, &questions))
	return strings.Join([]string{string(overview), string(catalogue), string(questions)}, "\n")
}

func replace(old, changed string) func(string) string {
	return func(yaml string) string { return strings.Replace(yaml, old, changed, 1) }
}

// cut takes out everything from one line up to another.
func cut(from, to string) func(string) string {
	return func(yaml string) string {
		before, rest, _ := strings.Cut(yaml, from)
		_, after, _ := strings.Cut(rest, to)
		return before + to + after
	}
}

// chunked moves the questions into a ConfigMap, where the API server cannot see the mistake that is made in them.
func chunked(old, changed string) func(string) string {
	return func(yaml string) string {
		exam, questions, _ := strings.Cut(yaml, "      questions:\n")
		return exam + "      questionsFrom:\n        - configMapKeyRef: {name: e2e-chunk, key: questions.yaml}\n" +
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: e2e-chunk\n  namespace: " + namespace +
			"\n  labels: {examprep.dev/content: \"true\"}\ndata:\n  questions.yaml: |\n" +
			strings.Replace(questions, old, changed, 1)
	}
}

func questionsFromNowhere(yaml string) string {
	before, _, _ := strings.Cut(yaml, "      questions:\n")
	return before + "      questionsFrom:\n        - configMapKeyRef: {name: e2e-missing, key: questions.json}\n"
}
