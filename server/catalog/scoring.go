package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
)

// Limits of the known keys of scoring, which no schema describes.
const (
	maxMarks = 1000 // small enough that no sum loses a decimal
	maxRows  = 1000 // of conversion and bands
)

// ParseScoring reads the keys of an exam's scoring object that have a meaning here (docs/spec.md, part 2); others are
// left alone, null counts as absent, and conversion is sorted by raw. A known key of another shape is left alone too: it has no effect.
// It fails with a *ValidationError whose fields begin with "scoring" if raw is not an object that has one meaning.
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
		v.reportf("", "must be an object")
		return scoring
	}
	scoring.Method = known(v, rubric, "method", "a string", func(method string) string {
		v.text("method", method, maxName)
		return method
	})
	scoring.Marks = known(v, rubric, "marks", "an object", func(marks map[string]any) (m *Marking) {
		v.within("marks", func() { m = v.markingOf(marks) })
		return m
	})
	scoring.PartialCredit = known(v, rubric, "partial_credit", "true or false", func(given bool) bool { return given })
	scoring.MaxScore = known(v, rubric, "max_score", "a number", func(score float64) *float64 {
		if score <= 0 {
			v.reportf("max_score", "must be more than 0")
		}
		return &score
	})
	scoring.PassMark = known(v, rubric, "pass_mark", "a number", func(mark float64) *float64 { return &mark })
	scoring.Scale = known(v, rubric, "scale", "an object", func(scale map[string]any) (s *Scale) {
		v.within("scale", func() { s = v.scaleOf(scale) })
		return s
	})
	scoring.Conversion = known(v, rubric, "conversion", "an array", v.conversionOf)
	scoring.Bands = known(v, rubric, "bands", "an array", v.bandsOf)
	scoring.SourceURL = known(v, rubric, "source_url", "a string", func(address string) string {
		if address != "" {
			v.link("source_url", address, maxURL)
		}
		return address
	})
	return scoring
}

// known reads one key that has a meaning; kind names T in a warning. A key that is absent, null or of another shape is none.
func known[T, R any](v *inspector, rubric map[string]any, name, kind string, read func(T) R) (result R) {
	member := rubric[name]
	if member == nil {
		return result
	}
	var none R
	if !v.lenient(func() {
		if value, ok := member.(T); ok {
			result = read(value)
		} else {
			v.reportf(name, "must be %s", kind)
		}
	}) {
		return none
	}
	return result
}

func (v *inspector) conversionOf(rows []any) (table []Conversion) {
	v.eachObject("conversion", rows, func(row map[string]any) {
		table = append(table, Conversion{Raw: v.number(row, "raw"), Scaled: v.number(row, "scaled")})
	})
	v.sortConversion(table)
	return table
}

func (v *inspector) bandsOf(rows []any) (bands []Band) {
	v.eachObject("bands", rows, func(row map[string]any) { bands = append(bands, v.bandOf(row)) })
	return bands
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

// marking checks scoring.marks. The schema limits the marking of a paper.
func (v *inspector) marking(m Marking) {
	v.marks("correct", m.Correct)
	v.marks("incorrect", m.Incorrect)
	v.marks("unanswered", m.Unanswered)
	if m.Correct <= 0 {
		v.reportf("correct", "must be more than 0")
	}
	if m.Incorrect > m.Correct {
		v.reportf("incorrect", "must not earn more than a correct answer")
	}
	if m.Unanswered > m.Correct {
		v.reportf("unanswered", "must not earn more than a correct answer")
	}
}

func (v *inspector) marks(field string, marks float64) {
	if math.Abs(marks) > maxMarks {
		v.reportf(field, "must be %d to %d", -maxMarks, maxMarks)
		return
	}
	v.decimals(field, marks)
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

// read reads a member of type T, into target if that is not nil; kind names T in the problem. An absent member and null are valid.
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

// eachObject visits the objects of an array.
func (v *inspector) eachObject(name string, rows []any, visit func(map[string]any)) {
	if len(rows) > maxRows {
		v.reportf(name, "must have at most %d entries, not %d", maxRows, len(rows))
	}
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
