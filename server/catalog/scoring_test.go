package catalog_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/testkit/check"
)

func TestScoringReadsTheKeysWithAMeaning(t *testing.T) {
	t.Parallel()
	number := func(n float64) *float64 { return &n }
	for _, test := range []struct {
		name, raw string
		want      catalog.Scoring
	}{
		{"nothing", ``, catalog.Scoring{}},
		{"null", ` null `, catalog.Scoring{}},
		{"unknown keys and other cases of known ones", `{"correct": 3, "Method": 1, "MARKS": [], "scale_note": {}}`, catalog.Scoring{}},
		{"null members", `{"method": null, "marks": null, "bands": null, "pass_mark": null}`, catalog.Scoring{}},
		{
			"everything",
			`{"method": "negative", "marks": {"correct": 3, "incorrect": -1}, "partial_credit": true, "max_score": 10, "pass_mark": 5.5,
			  "scale": {"min": 0, "max": 9, "step": 0.5}, "conversion": [{"raw": 40, "scaled": 9}, {"raw": 0, "scaled": 0}],
			  "bands": [{"label": "pass", "min": 5, "max": 9, "descriptor": "well"}], "source_url": "https://example.org/"}`,
			catalog.Scoring{
				Method: "negative", Marks: &catalog.Marking{Correct: 3, Incorrect: -1}, PartialCredit: true, MaxScore: number(10), PassMark: number(5.5),
				Scale: &catalog.Scale{Max: 9, Step: 0.5}, Conversion: []catalog.Conversion{{0, 0}, {40, 9}},
				Bands: []catalog.Band{{Label: "pass", Min: 5, Max: 9, Descriptor: "well"}}, SourceURL: "https://example.org/",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := catalog.ParseScoring(json.RawMessage(test.raw))
			check.NoError(t, err)
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestScoringThatHasNoSingleMeaningIsRefused(t *testing.T) {
	t.Parallel()
	for raw, field := range map[string]string{
		`[]`:                              "scoring",
		`"text"`:                          "scoring",
		`{`:                               "scoring",
		`{"a":1,"a":2}`:                   "scoring",
		`{"a":1e999}`:                     "scoring",
		`{"a":"\ud800"}`:                  "scoring",
		`{"a":{"b":["x", "\f"]}}`:         "scoring.a.b[1]",
		`{"bands":[{"descriptor":"\b"}]}`: "scoring.bands[0].descriptor",
		"{\"a\":\"\u0092\"}":              "scoring.a",
		"{\"a\u007f\":1}":                 "scoring",
	} {
		_, err := catalog.ParseScoring(json.RawMessage(raw))
		var invalid *catalog.ValidationError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want a ValidationError", raw, err)
			continue
		}
		if invalid.Problems[0].Field != field {
			t.Errorf("%s: field = %q, want %q", raw, invalid.Problems[0].Field, field)
		}
	}
}

func TestAScoringKeyOfAnotherShapeHasNoEffectAndAWarning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, field string }{
		{`{"method": 1}`, "scoring.method"},
		{`{"marks": []}`, "scoring.marks"},
		{`{"marks": "3"}`, "scoring.marks"},
		{`{"marks": {}}`, "scoring.marks.correct"},
		{`{"marks": {"correct": "3"}}`, "scoring.marks.correct"},
		{`{"marks": {"correct": 1.0000001}}`, "scoring.marks.correct"},
		{`{"marks": {"correct": 1, "incorrect": 2}}`, "scoring.marks.incorrect"},
		{`{"partial_credit": "yes"}`, "scoring.partial_credit"},
		{`{"max_score": 0}`, "scoring.max_score"},
		{`{"pass_mark": "50 %"}`, "scoring.pass_mark"},
		{`{"scale": "0-9"}`, "scoring.scale"},
		{`{"scale": {"min": 9, "max": 0}}`, "scoring.scale.max"},
		{`{"scale": {"min": 0, "max": 9, "step": -1}}`, "scoring.scale.step"},
		{`{"conversion": [{"raw": 1}]}`, "scoring.conversion[0].scaled"},
		{`{"conversion": [1]}`, "scoring.conversion[0]"},
		{`{"conversion": [{"raw":1,"scaled":1},{"raw":1,"scaled":2}]}`, "scoring.conversion"},
		{`{"bands": [{"min": 0, "max": 1}]}`, "scoring.bands[0].label"},
		{`{"bands": [{"label": "a", "min": 2, "max": 1}]}`, "scoring.bands[0].max"},
		{`{"source_url": "example.org"}`, "scoring.source_url"},
	} {
		raw, field := c.raw, c.field
		exam := catalogtest.Clone(catalogtest.SampleExam())
		exam.Scoring = json.RawMessage(raw[:len(raw)-1] + `, "note": "free"}`)
		warnings, err := catalog.Inspect(exam)
		if err != nil || len(warnings) == 0 || warnings[0].Field != field {
			t.Errorf("%s: warnings %v and %v, want one of %s", raw, warnings, err, field)
		}
		scoring, err := catalog.ParseScoring(exam.Scoring)
		if err != nil || !reflect.DeepEqual(scoring, catalog.Scoring{}) {
			t.Errorf("%s: scores by %+v, %v", raw, scoring, err)
		}
	}
	scoring, err := catalog.ParseScoring(json.RawMessage(`{"pass_mark": "much", "max_score": 10}`))
	check.NoError(t, err)
	if scoring.PassMark != nil || scoring.MaxScore == nil || *scoring.MaxScore != 10 {
		t.Errorf("a wrong key takes others along: %+v", scoring)
	}
}

// FuzzParseScoring: no input panics, what is accepted has a digest, and reading it again gives the same.
func FuzzParseScoring(f *testing.F) {
	f.Add([]byte(`{"marks": {"correct": 3, "incorrect": -1}, "scale": {"min": 0, "max": 9}, "conversion": [{"raw": 1, "scaled": 2}]}`))
	f.Add([]byte(`{"bands": [{"label": "é", "min": 0, "max": 1e-7}], "pass_mark": -0, "unknown": {"a": [null, true]}}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		scoring, err := catalog.ParseScoring(raw)
		if err != nil {
			if !reflect.DeepEqual(scoring, catalog.Scoring{}) {
				t.Fatal("an error and a scoring")
			}
			return
		}
		if _, err := catalog.PaperRevisionDigest(catalog.Digest{}, 1, scoring); err != nil {
			t.Fatalf("accepted without a digest: %v", err)
		}
		again, err := catalog.Encode(scoring)
		check.NoError(t, err)
		same, err := catalog.ParseScoring(again)
		if err != nil {
			t.Fatalf("%s does not read back: %v", again, err)
		}
		if !reflect.DeepEqual(same, scoring) && !catalog.SameJSON(same, scoring) {
			t.Fatalf("got %+v, want %+v", same, scoring)
		}
	})
}
