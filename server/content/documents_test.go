package content

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"

	"examprep.dev/api/v1alpha1"
)

// The bases set every field that has a bound.
const (
	baseExam = `
apiVersion: examprep.dev/v1alpha1
kind: ExamContent
metadata: {name: base}
spec:
  examKey: xx-sample
  name: Sample
  category: samples
  country: Spain
  countryCode: ES
  durationMinutes: 90
  deletionPolicy: Retain
  resyncInterval: 10m
  revisionHistoryLimit: 3
  adopt: false
  suspend: false
  scoring: {max_score: 10}
  sections: [{name: All, durationMinutes: 60, questions: 2, questionTypes: [single_choice], skills: [reading]}]
  resources:
    officialSites: [{title: Board, url: "https://example.org/"}]
    pastQuestionsSources: [{title: Board, url: "https://example.org/"}]
  studyPath: {weeks: 2, hoursTotal: 7.5, steps: [{week: 1}]}
  papers:
  - paperID: xx-sample-2023
    title: Sample
    subject: Everything
    year: 2023
    durationMinutes: 30
    language: pt
    marking: {correct: 1000, incorrect: -1, unanswered: 0}
    provenance: {publisher: Board, sourceURL: "https://example.org/", sourceDigest: "%[1]s", license: CC0-1.0}
    verification: {by: R. Viewer, at: "2026-01-31", digest: "%[1]s"}
    questions:
    - {section: 1, sectionName: One, number: 1, prompt: "One?", options: {A: one, B: two}, answer: {choice: B}, explanation: So., page: 3, hasVisual: true, topic: Ones}
    - {section: 2, number: 2, prompt: "Word?", answer: {text: word}}
    - {section: 3, number: 3, prompt: "Number?", answer: {number: 3.5, tolerance: 0.5}}
    - {section: 4, number: 4, prompt: "Both?", options: {A: a, B: b, C: c, D: d, E: e, F: f, G: g, H: h, I: i, J: j, K: k}, answer: {choices: [A, B]}}
    - {section: 5, number: 5, prompt: "None?", answer: {annulled: true}}
    - {section: 6, number: 6, prompt: "Essay?", answer: {unmarkable: true}}
`
	baseEndpoint = `
apiVersion: examprep.dev/v1alpha1
kind: WebhookEndpoint
metadata: {name: base}
spec: {url: "https://a.example/", events: [mock_attempt.scored], description: D, account: acme, suspend: false, signingSecretRef: {name: s, key: secret}}
`
	baseTier = `
apiVersion: examprep.dev/v1alpha1
kind: RateTier
metadata: {name: base}
spec: {requests: 10, period: 60s, burst: 20, accounts: [acme], keyPrefixes: [service_0123abcd]}
`
)

func zeros() string { return "sha256:" + strings.Repeat("0", 64) }

// documents are files for lint, API server and operator, by name: the bounds of every field of the CRDs, and texts by hand.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := handwritten()
	for plural, text := range map[string]string{
		"examcontents": fmt.Sprintf(baseExam, zeros()), "webhookendpoints": baseEndpoint, "ratetiers": baseTier,
	} {
		g := newGenerator(t, plural, text)
		g.all = all
		g.walk(&g.spec, g.base["spec"], "spec")
		all[plural] = g.encode(g.base)
	}
	return all
}

// handwritten are documents that no schema describes.
func handwritten() map[string]string {
	replaced := func(before, after string) string {
		if !strings.Contains(goodExam, before) {
			panic("no " + before)
		}
		return strings.Replace(goodExam, before, after, 1)
	}
	all := handwrittenChunks()
	maps.Copy(all, handwrittenStreams())
	maps.Copy(all, map[string]string{
		"good":                             goodExam,
		"good, in a ConfigMap":             chunkedExam(),
		"inline and in a ConfigMap":        strings.Replace(goodExam, "      questions:\n", "      questionsFrom:\n        - configMapKeyRef: {name: chunk, key: q.jsonl}\n      questions:\n", 1) + goodChunk,
		"name/with an underscore":          replaced("name: es-mir", "name: ES_MIR"),
		"name/in capitals":                 replaced("name: es-mir", "name: ES-MIR"),
		"name/with dots":                   replaced("name: es-mir", "name: es.mir"),
		"name/with a slash":                replaced("name: es-mir", "name: es/mir"),
		"name/of 253":                      replaced("name: es-mir", "name: "+strings.Repeat("a", 253)),
		"name/of 254":                      replaced("name: es-mir", "name: "+strings.Repeat("a", 254)),
		"name/none":                        replaced("  name: es-mir\n", "  labels: {a: b}\n"),
		"name/a number":                    replaced("name: es-mir", "name: 1"),
		"metadata/unknown":                 replaced("  name: es-mir\n", "  name: es-mir\n  nane: x\n"),
		"metadata/label with a blank":      replaced("  name: es-mir\n", "  name: es-mir\n  labels: {a: b c}\n"),
		"metadata/label key":               replaced("  name: es-mir\n", "  name: es-mir\n  labels: {a b: c}\n"),
		"metadata/label of 64":             replaced("  name: es-mir\n", "  name: es-mir\n  labels: {a: "+strings.Repeat("a", 64)+"}\n"),
		"metadata/label a number":          replaced("  name: es-mir\n", "  name: es-mir\n  labels: {a: 1}\n"),
		"metadata/annotation key":          replaced("  name: es-mir\n", "  name: es-mir\n  annotations: {a b: c}\n"),
		"metadata/annotation a boolean":    replaced("  name: es-mir\n", "  name: es-mir\n  annotations: {a: true}\n"),
		"metadata/finalizer":               replaced("  name: es-mir\n", "  name: es-mir\n  finalizers: ['a b']\n"),
		"characters/U+007F":                replaced("prompt: Two?", `prompt: "a\x7fb"`),
		"characters/U+0085":                replaced("prompt: Two?", `prompt: "a\x85b"`),
		"characters/U+0000":                replaced("prompt: Two?", `prompt: "a\0b"`),
		"characters/form feed":             replaced("prompt: Two?", `prompt: "\frac"`),
		"characters/tab and line feed":     replaced("prompt: Two?", `prompt: "a\tb\nc"`),
		"characters/carriage return":       replaced("prompt: Two?", `prompt: "a\rb"`),
		"characters/U+FFFF":                replaced("prompt: Two?", `prompt: "a\uffffb"`),
		"characters/emoji":                 replaced("prompt: Two?", `prompt: "😀"`),
		"characters/blank":                 replaced("prompt: Two?", `prompt: "  "`),
		"yaml/octal":                       replaced("number: 2\n", "number: 010\n"),
		"yaml/underscore":                  replaced("{number: 2}", "{number: 1_0}"),
		"yaml/hexadecimal":                 replaced("{number: 2}", "{number: 0x1F}"),
		"yaml/too many digits":             replaced("{number: 2}", "{number: 9007199254740993}"),
		"yaml/boolean of 1.1":              replaced("countryCode: ES", "countryCode: NO"),
		"yaml/boolean of 1.1 in a boolean": replaced("  countryCode: ES\n", "  suspend: no\n"),
		"yaml/date":                        replaced("title: MIR 2013", "title: 2013-01-01"),
		"yaml/null":                        replaced("countryCode: ES", "countryCode: null"),
		"yaml/null of a required field":    replaced("  name: MIR\n", "  name: ~\n"),
		"yaml/null in free form":           replaced("  countryCode: ES\n", "  scoring: {note: null}\n"),
		"yaml/key twice":                   replaced("  countryCode: ES\n", "  countryCode: ES\n  countryCode: ES\n"),
		"yaml/key of another case":         replaced("countryCode", "countrycode"),
		"yaml/alias":                       replaced("prompt: Two?", "prompt: &a Two?\n          explanation: *a"),
		"yaml/merge key":                   replaced("options: {A: yes it is, B: no it is not}", "options: {<<: {A: one}, B: two}"),
		"yaml/merge key behind":            replaced("options: {A: yes it is, B: no it is not}", "options: {A: two, <<: {A: one}, B: two}"),
		"yaml/tabs":                        replaced("  name: MIR\n", "\tname: MIR\n"),
		"yaml/letters that are booleans":   replaced("options: {A: yes it is, B: no it is not}", "options: {A: one, N: two, Y: three}"),
		"pin/of a broken exam":             strings.Replace(strings.Replace(chunkedExam(), `{"choice":"A"}`, `{"choice":"Z"}`, 1), "  countryCode: ES\n", "  revision: 3\n", 1),
		"pin/of no revision":               replaced("  countryCode: ES\n", "  revision: 0\n"),
		"group/unknown kind":               "apiVersion: examprep.dev/v1alpha1\nkind: Exam\nmetadata: {name: a}\n",
		"group/unknown version":            strings.Replace(goodExam, "v1alpha1", "v1", 1),
		"status":                           goodExam + "status: {observedGeneration: 1}\n",
		"status of a wrong type":           goodExam + "status: 1\n",
		"unknown at the root":              goodExam + "extra: 1\n",
		"no spec":                          "apiVersion: examprep.dev/v1alpha1\nkind: ExamContent\nmetadata: {name: a}\n",
	})
	for _, count := range []int{v1alpha1.MaxInlineQuestions, v1alpha1.MaxInlineQuestions + 1} {
		all[fmt.Sprintf("%d inline questions", count)] = replaced("        - number: 2\n", manyQuestions(count-2)+"        - number: 2\n")
	}
	return all
}

// handwrittenStreams are files with several documents.
func handwrittenStreams() map[string]string {
	return map[string]string{
		"stream/two resources":              goodExam + "---\n" + strings.ReplaceAll(goodExam, "es-mir", "es-eir"),
		"stream/the second is bad":          goodExam + "---\n" + strings.NewReplacer("es-mir", "es-eir", "year: 2013", "year: 1").Replace(goodExam),
		"stream/JSON in a row":              jsonTier("a", 1) + "\n" + jsonTier("b", 1),
		"stream/JSON in a row, bad":         jsonTier("a", 1) + "\n" + jsonTier("b", 0),
		"stream/a List":                     "apiVersion: v1\nkind: List\nitems:\n- " + jsonTier("a", 1) + "\n- " + jsonTier("b", 1) + "\n",
		"stream/a List, bad":                "apiVersion: v1\nkind: List\nitems:\n- " + jsonTier("a", 1) + "\n- " + jsonTier("b", 0) + "\n",
		"stream/behind a mark with content": goodExam + "--- {apiVersion: v1, kind: ConfigMap}\n",
		"stream/empty documents":            "---\n# nothing\n---\n" + goodExam + "---\n",
		"stream/byte order mark":            "\ufeff" + goodExam,
	}
}

// handwrittenChunks are ConfigMaps and the chunks in them.
func handwrittenChunks() map[string]string {
	chunked := func(before, after string) string { return strings.Replace(chunkedExam(), before, after, 1) }
	return map[string]string{
		"config map/key with a blank":       strings.ReplaceAll(chunkedExam(), "q.jsonl", "q jsonl"),
		"config map/key with an underscore": strings.ReplaceAll(chunkedExam(), "q.jsonl", "q_1"),
		"config map/key of 253":             strings.ReplaceAll(chunkedExam(), "q.jsonl", strings.Repeat("q", 253)),
		"config map/key of 254":             strings.ReplaceAll(chunkedExam(), "q.jsonl", strings.Repeat("q", 254)),
		"config map/name":                   strings.ReplaceAll(chunkedExam(), "chunk", "Chunk"),
		"config map/unknown field":          chunked("\ndata:\n", "\nspec: {}\ndata:\n"),
		"config map/label value":            chunked(`examprep.dev/content: "true"`, `{examprep.dev/content: "true", a: "b c"}`),
		"config map/a number":               chunked("\ndata:\n", "\ndata:\n  other: 1\n"),
		"config map/in both":                chunkedExam() + "binaryData: {q.jsonl: " + base64.StdEncoding.EncodeToString([]byte("x")) + "}\n",
		"config map/not base64":             chunkedExam() + "binaryData: {x: '!'}\n",
		"config map/1 MiB":                  sizedChunk(1 << 20),
		"config map/1 MiB and a byte":       sizedChunk(1<<20 + 1),
		"config map/missing":                chunked("name: chunk, key", "name: other, key"),
		"config map/key missing":            chunked("key: q.jsonl}", "key: r.jsonl}"),
		"chunk/trailing comma":              chunked(`    {"number":1`, `    [{"number":1`),
		"chunk/unknown field":               chunked(`"prompt":"Two?"`, `"promt":"Two?"`),
		"chunk/key twice":                   chunked(`"prompt":"Two?"`, `"prompt":"Two?","prompt":"Two?"`),
		"chunk/wrong type":                  chunked(`"prompt":"Two?"`, `"prompt":2`),
		"chunk/null":                        chunked(`"prompt":"Two?"`, `"prompt":"Two?","topic":null`),
		"chunk/letter":                      chunked(`{"choice":"A"}`, `{"choice":"Z"}`),
		"chunk/number twice":                chunked(`{"number":2,`, `{"number":1,`),
		"chunk/too many digits":             chunked(`"answer":{"number":2}`, `"answer":{"number":9007199254740993}`),
	}
}

func jsonTier(name string, requests int) string {
	return fmt.Sprintf(`{"apiVersion": "examprep.dev/v1alpha1", "kind": "RateTier", "metadata": {"name": %q}, "spec": {"requests": %d}}`, name, requests)
}

// sizedChunk is an exam with a ConfigMap whose data has a size.
func sizedChunk(size int) string {
	head, chunk, _ := strings.Cut(chunkedExam(), "  q.jsonl: |\n")
	lines := strings.ReplaceAll(chunk, "    ", "")
	return head + "  q.jsonl: |\n" + chunk + "  other: " + strings.Repeat("x", size-len(lines)) + "\n"
}
