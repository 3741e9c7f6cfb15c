//go:build e2e

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit"
)

// soon is how quickly a change must be served, from the end of kubectl apply.
const soon = 2 * time.Second

// changeIsServedSoon re-applies the small fixture with another prompt, and the largest exam with another name, and
// measures until the API serves the change; then the event must arrive.
func changeIsServedSoon(t *testing.T, s *stack, papers []*crowdtest.Paper) {
	s.receiver.Forget(t)
	right := readFixture(t)
	s.applyReady(t, right)
	t.Run("a question of a small exam", func(t *testing.T) {
		const prompt = "Which letter comes second, after the change?"
		s.measure(t, fixture, func() {
			s.kubectl(t, strings.Replace(right, "Which letter comes second?", prompt, 1), "apply", "-f", "-")
		}, func() bool { return strings.Contains(s.served(t), prompt) })
	})
	t.Run("the name of the largest exam", func(t *testing.T) {
		exam := largest(papers)
		name := "Renamed at " + time.Now().Format(time.RFC3339Nano)
		var resources struct {
			Items []struct {
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
				Spec struct {
					ExamKey string `json:"examKey"`
				} `json:"spec"`
			} `json:"items"`
		}
		decode(t, s.kubectl(t, "", "get", "examcontents", "-n", namespace, "-o", "json"), &resources)
		for _, resource := range resources.Items {
			if resource.Spec.ExamKey != exam {
				continue
			}
			patch := testkit.Encode(t, map[string]any{"spec": map[string]string{"name": name}})
			s.measure(t, exam, func() {
				s.kubectl(t, "", "patch", "examcontent", resource.Metadata.Name, "-n", namespace, "--type=merge", "-p", string(patch))
			}, func() bool {
				var overview []byte
				err := s.api.Call(t.Context(), crowdtest.OpOverview, http.MethodGet, crowdtest.Path(exam, "/overview"), nil, &overview)
				return err == nil && strings.Contains(string(overview), name)
			})
			return
		}
		t.Fatalf("no resource declares %s", exam)
	})
}

// measure makes a change, waits until it is served and its event has arrived, and says how long both took.
func (s *stack) measure(t *testing.T, exam string, change func(), served func() bool) {
	t.Helper()
	if served() {
		t.Fatal("the change is served before it was made")
	}
	s.receiver.Forget(t)
	began := time.Now()
	change()
	applied := time.Now()
	eventually(t, time.Minute, "the change of "+exam+" to be served", served)
	took := time.Since(applied)
	t.Logf("%s: served %s after kubectl had ended, %s after it had begun", exam,
		took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	if took > soon {
		t.Errorf("served after %s, want %s at most", took, soon)
	}
	arrived := eventually(t, time.Minute, "exam.content_updated of "+exam, func() bool {
		s.receiver.Read(t)
		return slices.ContainsFunc(s.receiver.Updates, func(u crowdtest.ContentUpdated) bool { return u.ExamKey == exam })
	})
	t.Logf("%s: exam.content_updated arrived %s later", exam, arrived.Round(time.Millisecond))
}

func largest(papers []*crowdtest.Paper) string {
	counts := map[string]int{}
	best := ""
	for _, p := range papers {
		if counts[p.Exam] += len(p.Questions); counts[p.Exam] > counts[best] {
			best = p.Exam
		}
	}
	return best
}
