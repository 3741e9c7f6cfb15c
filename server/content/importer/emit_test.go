package importer

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
	sigsyaml "sigs.k8s.io/yaml"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/syntax"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"NO", "y", "on", "~", "null", "1:30", "0x1F", "1e3", "2026-01-15", "- a", "# a", "a: b", "a #b", "'", `"`, "|", ">",
			"{a}", "[a]", "*a", "&a", "!a", "%a", "@a", "`a", "?", ",", "<<", "=", ".inf", "a\nb", "a\n\nb\n", " a\nb", "a \nb",
			"\n", "\ta", "a\r\nb", "a\u0085b", "a\u2028b", "\ufeff", "\u007f", "\u0000", "😀", "é", "a:", "a:b", "---", "...", "a\n---\nb",
		}),
		rapid.String(),
		rapid.StringMatching(`[A-Za-z ,.:#'"\-]{1,40}`),
		rapid.StringMatching(`([a-z:# ]{1,8}\n){1,4}[a-z]{0,3}`),
	).Filter(utf8.ValidString)
}

// contentText is text that an exam can have.
func contentText() *rapid.Generator[string] {
	return rapid.Map(anyText(), func(text string) string {
		const lineEnd = "\x00"
		text = strings.ReplaceAll(strings.ReplaceAll(text, lineEnd, ""), "\r\n", lineEnd)
		text = strings.Map(func(r rune) rune {
			if string(r) != lineEnd && r != '\n' && r != '\t' && (unicode.IsControl(r) || r == 0xfffe || r == 0xffff) {
				return -1
			}
			return r
		}, text)
		return strings.ReplaceAll(text, lineEnd, "\r\n")
	})
}

// asKubectl reads YAML as kubectl does.
func asKubectl(t *rapid.T, text []byte, target any) {
	asJSON, err := sigsyaml.YAMLToJSONStrict(text)
	if err != nil {
		t.Fatalf("kubectl cannot read it: %v\n%s", err, text)
	}
	testkit.Decode(t, asJSON, target)
}

func TestEmittedYAMLIsReadBackByKubectlAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		object := map[string]any{
			"text": anyText().Draw(t, "text"),
			"list": []any{anyText().Draw(t, "item"), rapid.Bool().Draw(t, "bool"), float64(rapid.Int32().Draw(t, "int"))},
			"map":  map[string]any{anyText().Draw(t, "key"): anyText().Draw(t, "value")},
		}
		text, err := emit(object, "head", map[string]string{"text": "a comment"})
		check.NoError(t, err)
		var again map[string]any
		asKubectl(t, text, &again)
		if !reflect.DeepEqual(object, again) {
			t.Fatalf("have %#v\nwant %#v\n%s", again, object, text)
		}
		doc, err := syntax.Parse(text)
		if err != nil || doc == nil {
			t.Fatalf("our own reader: %v", err)
		}
	})
}

func anyQuestion(section, number int32) *rapid.Generator[v1alpha1.Question] {
	return rapid.Custom(func(t *rapid.T) v1alpha1.Question {
		required := contentText().Filter(func(s string) bool { return strings.TrimSpace(s) != "" })
		question := v1alpha1.Question{
			Section: section, Number: number, SectionName: rapid.SampledFrom([]string{"", "T1A", "On: off"}).Draw(t, "section name"),
			Prompt: required.Draw(t, "prompt"), HasVisual: rapid.Bool().Draw(t, "visual"), Page: rapid.Int32Range(0, 90).Draw(t, "page"),
		}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0, 1:
			question.Options = map[string]string{}
			for _, letter := range []string{"A", "B", "N", "Y"} {
				question.Options[letter] = required.Draw(t, letter)
			}
			question.Answer.Choices = []string{"N", "Y"}
		case 2:
			number, tolerance := rapid.Float64Range(-1e9, 1e9).Draw(t, "number"), rapid.Float64Range(0, 1).Draw(t, "tolerance")
			question.Answer.Number, question.Answer.Tolerance = &number, &tolerance
		case 3:
			question.Answer.Annulled = true
		default:
			question.Answer.Text = rapid.StringMatching(`[a-z0-9]{1,20}`).Draw(t, "text")
		}
		return question
	})
}

func TestQuestionsSurviveEveryWayThroughFiles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := v1alpha1.ExamContentSpec{
			ExamKey: "es-mir", Name: "MIR",
			Papers: []v1alpha1.Paper{{
				PaperID: "es-mir-2013", Title: "MIR 2013", Year: 2013,
				Provenance: v1alpha1.Provenance{Publisher: "p", SourceURL: "https://example.com", License: "l"},
			}},
		}
		var questions []v1alpha1.Question
		var lines strings.Builder
		for number := range rapid.Int32Range(1, 4).Draw(t, "count") {
			question := anyQuestion(1, number+1).Draw(t, "question")
			questions = append(questions, question)
			line, err := syntax.CompactJSON(question)
			check.NoError(t, err)
			lines.WriteString(string(line) + "\n")
		}
		spec.Papers[0].Questions = questions
		want := sealOfText(t, resource{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ExamContent", Metadata: resourceMeta{Name: "a"}, Spec: spec,
		})
		spec.Papers[0].Questions, spec.Papers[0].QuestionsFrom = nil, []v1alpha1.QuestionSource{{
			ConfigMapKeyRef: v1alpha1.ConfigMapKeyRef{Name: "c", Key: chunkKey}, Digest: assemble.ChunkDigest([]byte(lines.String())),
		}}
		have := sealOfText(t, resource{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ExamContent", Metadata: resourceMeta{Name: "a"}, Spec: spec,
		}, (&rendering{importer: &importer{}}).configMap("c", lines.String()))
		if have != want {
			t.Fatalf("inline %s, chunked %s", want, have)
		}
	})
}

func sealOfText(t *rapid.T, resources ...resource) string {
	var stream bytes.Buffer
	for _, object := range resources {
		text, err := emit(object, "test", nil)
		check.NoError(t, err)
		stream.WriteString("---\n")
		stream.Write(text)
	}
	files, err := content.Load(t.Context(), &stream, content.Stdin)
	check.NoError(t, errors.Join(err, files.Err()))
	exam, err := assemble.Assemble(t.Context(), &files.Contents[0].ExamContent, files)
	check.NoError(t, err)
	digest, err := exam.Papers[0].SealDigest()
	check.NoError(t, err)
	return digest.String()
}
