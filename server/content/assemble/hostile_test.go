package assemble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/race"
)

// allocated returns how many MiB run allocates. Tests that call it must not be parallel.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

func skipWithDetector(t *testing.T) {
	t.Helper()
	if race.Enabled {
		t.Skip("the race detector allocates too: make test runs this without it")
	}
}

//nolint:paralleltest // it counts the allocations of the process
func TestHostileChunksNeedLittleMemory(t *testing.T) {
	skipWithDetector(t)
	var tags strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&tags, "%%TAG !%d! x\n", i)
	}
	long := strings.Repeat("x", 64<<10)
	for name, test := range map[string]struct {
		text, want string
		// most is how many MiB decoding can allocate.
		most uint64
	}{
		"aliases of a text":        {`- &a "` + long + "\"\n" + strings.Repeat("- *a\n", 1000), "line 256: with aliases expanded, has more than 16777216 bytes as JSON: split it", 32},
		"aliases of aliases":       {"- &a [a, b, c, d, e, f, g, h, i, j]\n" + laughs("abcdefg"), "line 6: with aliases expanded, has more than 400000 values: split it", 1},
		"merged mappings":          {`- &a {prompt: "` + long + "\"}\n" + strings.Repeat("- <<: *a\n", 1000), "line 256: with aliases expanded, has more than 16777216 bytes as JSON: split it", 32},
		"a cycle":                  {"- &a [*a]\n", `line 1: the value of alias "a" contains itself`, 1},
		"objects, a line each":     {strings.Repeat("{}\n", 390_000), "line 10001: holds more than 10000 questions", 16},
		"more objects":             {strings.Repeat("{}\n", 2_000_000), "line 400000: has more than 400000 values: split it", 1},
		"numbers in an array":      {"[" + strings.Repeat("0,\n", 300_000) + "0]", "line 10001: holds more than 10000 questions", 1},
		"values in an array":       {"[[" + strings.Repeat("0,", 2_000_000) + "0]]", "line 1: has more than 400000 values: split it", 1},
		"items of a YAML list":     {strings.Repeat("- {}\n", 150_000), "line 10001: holds more than 10000 questions", 192},
		"values in a YAML list":    {"- [" + strings.Repeat("0,", 2_000_000) + "0]", "line 1: has more than 400000 values: split it", 1},
		"wrong items":              {"[" + strings.Repeat("0,", 9000) + "0]", "line 1: [0]: must be an object, is a number", 32},
		"wrong lines":              {strings.Repeat(`{"nomber":1}`+"\n", 9000), "line 1: [0].nomber: unknown field", 8},
		"wrong keys":               {"- {" + strings.Repeat("a: 1, ", 50_000) + "b: 1}", "line 1: [0].a: is given twice (first on line 1)", 96},
		"a long name":              {"- ? " + long + "\n  : {" + strings.Repeat("a: 1, ", 2000) + "b: 1}", "line 1: has a name of more than 1024 bytes", 8},
		"a long name in JSON":      {`[{"` + long + `":1}]`, "line 1: has a name of more than 1024 bytes", 8},
		"directives":               {tags.String() + "--- []\n", "line 101: has more than 100 lines that begin with %", 1},
		"a number of a MiB":        {`{"number":1.` + strings.Repeat("0", 1<<20) + "1}", "line 1: [0].number: 1.", 64},
		"a number of a MiB, YAML":  {`- number: 1.` + strings.Repeat("0", 1<<20) + "1\n", "line 1: [0].number: 1.", 64},
		"a text that is no number": {`- number: "` + strings.Repeat(long, 16) + "\"\n", "line 1: [0].number: must be a whole number, is a text", 64},
	} {
		t.Run(name, func(t *testing.T) {
			var problems []ChunkError
			text := []byte(test.text)
			need := allocated(func() { _, problems = DecodeChunk(text) })
			if len(problems) == 0 || len(problems) > catalog.MaxProblems || !strings.HasPrefix(problems[0].Error(), test.want) {
				t.Errorf("%d problems, want at most %d: %.200v\nwant %s", len(problems), catalog.MaxProblems, problems, test.want)
			}
			for _, problem := range problems {
				if size := len(problem.Error()); size > 1000 {
					t.Fatalf("a problem has %d bytes: %.200s", size, problem.Error())
				}
			}
			if need > test.most {
				t.Errorf("allocated %d MiB, want at most %d", need, test.most)
			}
		})
	}
}

// laughs returns lists of which each has ten times the one before.
func laughs(names string) string {
	var b strings.Builder
	for i := 1; i < len(names); i++ {
		fmt.Fprintf(&b, "- &%c [%s]\n", names[i], strings.TrimSuffix(strings.Repeat("*"+string(names[i-1])+", ", 10), ", "))
	}
	return b.String()
}

func TestDecodeChunkReadsAliasesAndManyQuestions(t *testing.T) {
	t.Parallel()
	questions, problems := DecodeChunk([]byte("- {number: 1, prompt: &a text}\n- {number: 2, prompt: *a}\n"))
	if len(problems) > 0 || questions[1].Prompt != "text" {
		t.Errorf("have %+v, %v", questions, problems)
	}
	line := `{"number":1,"prompt":"p, [q]: {r}","options":{"A":"a","B":"b","C":"c","D":"d"},"answer":{"choice":"A"},"explanation":"e"}`
	for name, text := range map[string]string{
		"lines": strings.Repeat(line+"\n", catalog.MaxQuestions),
		"array": "[" + strings.Repeat(line+",", catalog.MaxQuestions-1) + line + "]",
	} {
		questions, problems := DecodeChunk([]byte(text))
		check.Equal(t, len(questions), catalog.MaxQuestions, "%s: questions; %v", name, problems)
	}
}

// chunkOf is a ChunkReader that has one chunk under each name.
type chunkOf []byte

func (c chunkOf) ReadChunk(ctx context.Context, _, name, key string) ([]byte, error) {
	if name == "missing" {
		return nil, &ChunkMissingError{Name: name, Key: key}
	}
	return c, ctx.Err()
}

func referring(papers, references int, name string) *v1alpha1.ExamContent {
	content := &v1alpha1.ExamContent{}
	for range papers {
		paper := v1alpha1.Paper{}
		for range references {
			paper.QuestionsFrom = append(paper.QuestionsFrom, v1alpha1.QuestionSource{
				ConfigMapKeyRef: v1alpha1.ConfigMapKeyRef{Name: name, Key: "k"},
			})
		}
		content.Spec.Papers = append(content.Spec.Papers, paper)
	}
	return content
}

//nolint:paralleltest // it counts the allocations of the process
func TestManyReferencesNeedLittleMemory(t *testing.T) {
	skipWithDetector(t)
	for name, test := range map[string]struct {
		chunk []byte
		// most is how many MiB reading can allocate.
		most uint64
	}{
		"broken chunks":              {[]byte(`{"number":`), 64},
		"chunks that expand":         {compress(t, bytes.Repeat([]byte(" "), MaxChunkBytes+1)), 768},
		"chunks of small questions":  {bytes.Repeat([]byte("{}\n"), catalog.MaxQuestions), 768},
		"chunks of aliases":          {[]byte("- prompt: &a " + strings.Repeat("x", 10<<10) + "\n" + strings.Repeat("- prompt: *a\n", 1000)), 768},
		"chunks with another digest": {bytes.Repeat([]byte("x"), 1<<20), 4},
	} {
		t.Run(name, func(t *testing.T) {
			content := referring(100, 64, "c")
			if strings.Contains(name, "digest") {
				for i := range content.Spec.Papers {
					for k := range content.Spec.Papers[i].QuestionsFrom {
						content.Spec.Papers[i].QuestionsFrom[k].Digest = "sha256:00"
					}
				}
			}
			var read *Assembled
			need := allocated(func() {
				var err error
				read, err = Read(t.Context(), content, chunkOf(test.chunk))
				check.NoError(t, err)
			})
			if need > test.most {
				t.Errorf("allocated %d MiB, want at most %d", need, test.most)
			}
			check.Equal(t, len(read.Refused), maxRefused+1, "refused references")
			questions := 0
			for _, paper := range read.Exam.Papers {
				questions += len(paper.Questions)
			}
			if questions > MaxExamBytes/questionBytes {
				t.Errorf("read %d questions", questions)
			}
			if size := len(read.Refused.Error()); size > 8000 {
				t.Errorf("the text has %d bytes", size)
			}
		})
	}
}

func TestRefusedReferencesAreCounted(t *testing.T) {
	t.Parallel()
	content := referring(1, maxRefused+5, "missing")
	for i, name := range []string{"c", "c", "missing"} {
		content.Spec.Papers[0].QuestionsFrom[maxRefused+i].ConfigMapKeyRef.Name = name
	}
	content.Spec.Papers[0].QuestionsFrom[maxRefused].Digest = "sha256:00"
	_, err := Assemble(t.Context(), content, chunkOf("{"))
	omitted, ok := errors.AsType[*OmittedError](err)
	if !ok {
		t.Fatalf("have %v", err)
	}
	check.Equal(t, *omitted, OmittedError{Missing: 3, Digests: 1, Invalid: 1}, "omitted references")
	check.Contains(t, err.Error(), "; and 5 more references that cannot be used", "the text")
}

func TestReadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Read(ctx, referring(1, 1, "missing"), chunkOf(""))
	check.Equal(t, errors.Is(err, context.Canceled), true, "the context ended it: %v", err)
}
