package content

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// withoutContent are the fields of an ExamContent that no learner is served, with the reason.
func withoutContent() map[string]string {
	return map[string]string{
		"spec.adopt":                "an option of the operator",
		"spec.deletionPolicy":       "an option of the operator",
		"spec.resyncInterval":       "an option of the operator",
		"spec.revision":             "an option of the operator",
		"spec.revisionHistoryLimit": "an option of the operator",
		"spec.suspend":              "an option of the operator",
		"spec.examKey":              "it names the exam, and never changes",
		"spec.papers.questionsFrom": "it names the chunks; their questions are the content",

		"spec.papers.questions.answer.unmarkable": "true is its only value",
	}
}

// leaves are the fields of the spec without fields of their own.
func leaves(t *testing.T) []string {
	t.Helper()
	crd, err := v1alpha1.CRD("examcontents")
	check.NoError(t, err)
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	all := schemaFields(&spec, "spec")
	slices.Sort(all)
	return slices.DeleteFunc(all, func(field string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, field+".") })
	})
}

// otherValues are valid values of fields that do not take any text or number.
func otherValues() map[string]any {
	digest := "sha256:" + strings.Repeat("a", 64)
	return map[string]any{
		"spec.countryCode":                     "FR",
		"spec.papers.provenance.sourceDigest":  digest,
		"spec.papers.questions.answer.choice":  "A",
		"spec.papers.questions.answer.choices": []any{"A", "B"},
		"spec.papers.questions.number":         777,
		"spec.papers.questions.options":        map[string]any{"A": "changed", "B": "b", "C": "c", "D": "d"},
		"spec.papers.questions.section":        77,
		"spec.papers.verification.at":          "2026-01-16",
		"spec.papers.verification.digest":      digest,
	}
}

// change gives the first value at a path another one: the given one, or one that differs a little. It reports false if there is none.
func change(value any, path []string, other any) (changed any, ok bool) {
	if len(path) == 0 && other != nil {
		return other, true
	}
	switch v := value.(type) {
	case []any:
		for i := range v {
			if changed, ok := change(v[i], path, other); ok {
				v[i] = changed
				return v, true
			}
		}
		return v, false
	case map[string]any:
		if len(path) == 0 {
			v["changed"] = "yes"
			return v, true
		}
		below, there := v[path[0]]
		if !there {
			return v, false
		}
		v[path[0]], ok = change(below, path[1:], other)
		return v, ok
	case string:
		return v + "x", len(path) == 0
	case float64:
		return v + 1, len(path) == 0
	case bool:
		return !v, len(path) == 0
	default:
		return v, false
	}
}

// specWith returns the spec of the sample with another value of one field.
func specWith(t *testing.T, sample *v1alpha1.ExamContent, field string) v1alpha1.ExamContentSpec {
	t.Helper()
	text, err := json.Marshal(sample)
	check.NoError(t, err)
	object := make(map[string]any)
	check.NoError(t, json.Unmarshal(text, &object))
	if _, ok := change(object, strings.Split(field, "."), otherValues()[field]); !ok {
		t.Fatalf("%s has no value in %s", field, samplesFolder)
	}
	text, err = json.Marshal(object)
	check.NoError(t, err)
	var changed v1alpha1.ExamContent
	check.NoError(t, json.Unmarshal(text, &changed))
	return changed.Spec
}

// TestEveryFieldOfAnExamIsContent changes each field of the sample. The change must reach the catalogue, which shows in the digest of
// the exam, and `content diff`. CONTRIBUTING.md, "Add a field to ExamContent", says where a field that fails here is missing.
func TestEveryFieldOfAnExamIsContent(t *testing.T) {
	t.Parallel()
	files := load(t, samplesFolder)
	sample := &files.Contents[0].ExamContent
	publisher := catalog.NewPublisher(testkit.Database(t), postgres.Sandbox)
	exam := func(content *v1alpha1.ExamContent) catalog.Exam {
		assembled, err := assemble.Read(t.Context(), content, files)
		check.NoError(t, err)
		return assembled.Exam
	}
	valid, err := catalog.Validate(exam(sample))
	check.NoError(t, err)
	published, err := publisher.Publish(t.Context(), catalog.Claim{Cluster: "c", Namespace: "n", Name: "e"}, valid, catalog.Options{})
	check.NoError(t, err)
	sealed := sealDigests(t, valid)
	exceptions := withoutContent()
	used := make(map[string]bool)
	for _, field := range leaves(t) {
		excepted := ""
		for name := range exceptions {
			if field == name || strings.HasPrefix(field, name+".") {
				excepted = name
				used[name] = true
			}
		}
		if excepted != "" {
			continue
		}
		changed := sample.DeepCopy()
		changed.Spec = specWith(t, sample, field)
		next, err := catalog.Validate(exam(changed))
		if err != nil {
			t.Errorf("%s: otherValues needs a valid value: %v", field, err)
			continue
		}
		identity, err := catalog.Identify(next)
		check.NoError(t, err)
		if identity.Digest == published.Digest {
			t.Errorf("%s does not change the digest: server/content/assemble/convert.go, server/catalog/exam.go or canonical.go lacks it, or withoutContent a reason", field)
			continue
		}
		if ofPaper := strings.HasPrefix(field, "spec.papers.") && !strings.HasPrefix(field, "spec.papers.verification."); ofPaper && slices.Equal(sealDigests(t, next), sealed) {
			t.Errorf("%s is not sealed: server/catalog/canonical.go lacks it", field)
		}
		changes, err := publisher.Diff(t.Context(), next)
		check.NoError(t, err)
		if len(changes) == 0 {
			t.Errorf("%s does not show in content diff: server/catalog/compare.go lacks it", field)
		}
	}
	for name := range exceptions {
		check.Equal(t, used[name], true, "%s is a field", name)
	}
}

// sealDigests returns the digests that a reviewer of each paper seals.
func sealDigests(t *testing.T, exam catalog.ValidExam) []catalog.Digest {
	t.Helper()
	var digests []catalog.Digest
	for _, paper := range exam.Exam().Papers {
		digest, err := paper.SealDigest()
		check.NoError(t, err)
		digests = append(digests, digest)
	}
	return digests
}
