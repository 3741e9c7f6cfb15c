package main

import "testing"

func TestFlagsChooseTheUsualPartsAndAllParts(t *testing.T) {
	names := func(chosen []part) (text string) {
		for _, p := range chosen {
			text += p.name + " "
		}
		return text
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "gate attempts publish webhooks "},
		{[]string{"-only", "keys,gate"}, "gate keys "},
		{[]string{"-only", "all"}, "gate rivals fairness attempts onekey publish history catalogue console hostile keys webhooks bulk operator "},
	} {
		_, chosen, err := parseFlags(c.args)
		if err != nil || names(chosen) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.args, names(chosen), err, c.want)
		}
	}
	for _, refused := range [][]string{{"-only", "none"}, {"-exams", "99"}, {"-only", "keys", "-plot", "plot.svg"}} {
		if _, _, err := parseFlags(refused); err == nil {
			t.Errorf("%q is accepted", refused)
		}
	}
	if s, _, err := parseFlags([]string{"-plot", "plot.svg"}); err != nil || s.plot != "plot.svg" {
		t.Errorf("-plot alone: %q, %v", s.plot, err)
	}
}

func TestSmallSizesLeaveGivenSizesAlone(t *testing.T) {
	got, _, err := parseFlags([]string{"-small", "-keys", "5000"})
	if err != nil || got.manyKeys != 5000 || got.waiting != 20_000 || got.historyAttempts != 20_000 || got.catalogueExams != 200 || got.examContents != 200 || got.bulkPercent != 5 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestVerdictMeetsItsBarAndItsGoal(t *testing.T) {
	for _, c := range []struct {
		v         verdict
		bar, goal string
	}{
		{verdict{measured: 1.2, bar: 1.25, goal: 1.1}, "met", "missed"},
		{verdict{measured: 0.5, bar: 0.42, goal: 0.5, least: true}, "met", "met"},
		{verdict{measured: 0.4, bar: 0.42, goal: 0.5, least: true}, "missed", "missed"},
	} {
		if bar, goal := c.v.meets(c.v.bar), c.v.meets(c.v.goal); bar != c.bar || goal != c.goal {
			t.Errorf("%+v: bar %s, goal %s, want %s, %s", c.v, bar, goal, c.bar, c.goal)
		}
	}
}
