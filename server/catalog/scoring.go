package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// ParseScoring reads the keys of an exam's scoring object that have a meaning here (docs/spec.md, part 2); others are
// left alone, null counts as absent, and conversion is sorted by raw. It fails with a *ValidationError whose fields
// begin with "scoring".
func ParseScoring(raw json.RawMessage) (Scoring, error) {
	v := &inspector{}
	var scoring Scoring
	v.within("scoring", func() { scoring = v.scoring(raw) })
	if err := v.err(); err != nil {
		return Scoring{}, err
	}
	return scoring, nil
}

// scoring reads and checks at once. It goes by map, not by struct tags: encoding/json matches names in any case, and a
// rubric's "Method" is not our "method".
func (v *inspector) scoring(raw json.RawMessage) Scoring {
	var scoring Scoring
	if isAbsent(raw) || !v.freeForm(raw) {
		return scoring
	}
	var rubric map[string]any
	if err := json.Unmarshal(raw, &rubric); err != nil {
		v.reportf("", "is not JSON")
		return scoring
	}
	read(v, rubric, "method", "a string", &scoring.Method)
	v.text("method", scoring.Method, maxName)
	if marks, ok := read[map[string]any](v, rubric, "marks", "an object", nil); ok {
		v.within("marks", func() { scoring.Marks = v.markingOf(marks) })
	}
	read(v, rubric, "partial_credit", "true or false", &scoring.PartialCredit)
	scoring.MaxScore = v.optionalNumber(rubric, "max_score")
	if scoring.MaxScore != nil && *scoring.MaxScore <= 0 {
		v.reportf("max_score", "must be more than 0")
	}
	scoring.PassMark = v.optionalNumber(rubric, "pass_mark")
	if scale, ok := read[map[string]any](v, rubric, "scale", "an object", nil); ok {
		v.within("scale", func() { scoring.Scale = v.scaleOf(scale) })
	}
	eachObject(v, rubric, "conversion", func(row map[string]any) {
		scoring.Conversion = append(scoring.Conversion, Conversion{Raw: v.number(row, "raw"), Scaled: v.number(row, "scaled")})
	})
	v.sortConversion(scoring.Conversion)
	eachObject(v, rubric, "bands", func(row map[string]any) { scoring.Bands = append(scoring.Bands, v.bandOf(row)) })
	if read(v, rubric, "source_url", "a string", &scoring.SourceURL); scoring.SourceURL != "" {
		v.link("source_url", scoring.SourceURL)
	}
	return scoring
}

func isAbsent(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) == 0 || string(trimmed) == "null"
}

func (v *inspector) markingOf(marks map[string]any) *Marking {
	m := Marking{Correct: v.number(marks, "correct")}
	read(v, marks, "incorrect", "a number", &m.Incorrect)
	read(v, marks, "unanswered", "a number", &m.Unanswered)
	v.marking(m)
	return &m
}

func (v *inspector) scaleOf(scale map[string]any) *Scale {
	s := Scale{Min: v.number(scale, "min"), Max: v.number(scale, "max")}
	read(v, scale, "step", "a number", &s.Step)
	if s.Min >= s.Max {
		v.reportf("max", "must be more than min")
	}
	if s.Step < 0 {
		v.reportf("step", "must not be negative")
	}
	return &s
}

func (v *inspector) bandOf(row map[string]any) Band {
	band := Band{Min: v.number(row, "min"), Max: v.number(row, "max")}
	read(v, row, "label", "a string", &band.Label)
	v.required("label", band.Label, maxName)
	read(v, row, "descriptor", "a string", &band.Descriptor)
	v.text("descriptor", band.Descriptor, maxProse)
	if band.Min > band.Max {
		v.reportf("max", "must not be less than min")
	}
	return band
}

// sortConversion puts the table in the order of raw scores, of which each may stand once.
func (v *inspector) sortConversion(table []Conversion) {
	slices.SortStableFunc(table, func(a, b Conversion) int { return cmp.Compare(a.Raw, b.Raw) })
	for i := 1; i < len(table); i++ {
		if table[i].Raw == table[i-1].Raw {
			v.reportf("conversion", "converts %v twice", table[i].Raw)
		}
	}
}

// number reads a required number.
func (v *inspector) number(object map[string]any, name string) float64 {
	value, ok := read[float64](v, object, name, "a number", nil)
	if !ok && object[name] == nil {
		v.reportf(name, "is required")
	}
	return value
}

func (v *inspector) optionalNumber(object map[string]any, name string) *float64 {
	if value, ok := read[float64](v, object, name, "a number", nil); ok {
		return &value
	}
	return nil
}

// read takes a member of type T, into target if that is not nil; kind names T in the problem. A member that is absent or
// null is no problem.
func read[T any](v *inspector, object map[string]any, name, kind string, target *T) (T, bool) {
	var none T
	member := object[name]
	if member == nil {
		return none, false
	}
	value, ok := member.(T)
	if !ok {
		v.reportf(name, "must be %s", kind)
		return none, false
	}
	if target != nil {
		*target = value
	}
	return value, true
}

// eachObject visits the objects of an array member.
func eachObject(v *inspector, object map[string]any, name string, visit func(map[string]any)) {
	rows, _ := read[[]any](v, object, name, "an array", nil)
	v.length(name, len(rows))
	for i, row := range rows {
		v.at(name, i, func() {
			if fields, ok := row.(map[string]any); ok {
				visit(fields)
			} else {
				v.reportf("", "must be an object")
			}
		})
	}
}
