package stage

import (
	"slices"
	"strings"
	"testing"
)

func TestProcessesInheritNoSettingOfTheProduct(t *testing.T) {
	t.Setenv("EXAMPREP_LISTEN", ":1")
	t.Setenv("RECORD_OTHER", "kept")
	s := &Stage{cfg: Config{RedisURL: "redis://a"}, name: "record_x", database: "postgres://b/record_x"}
	environment := s.environment()
	for _, want := range []string{"RECORD_OTHER=kept", "DATABASE_URL=postgres://b/record_x", "REDIS_URL=redis://a"} {
		if !slices.Contains(environment, want) {
			t.Errorf("no %s", want)
		}
	}
	if slices.ContainsFunc(environment, func(variable string) bool { return strings.HasPrefix(variable, "EXAMPREP_LISTEN=") }) {
		t.Error("EXAMPREP_LISTEN is inherited")
	}
}

func TestCloseUndoesTheLastStepFirst(t *testing.T) {
	s := &Stage{}
	var order []int
	for n := range 3 {
		s.later(func() { order = append(order, n) })
	}
	s.Close()
	s.Close()
	if !slices.Equal(order, []int{2, 1, 0}) {
		t.Errorf("order %v", order)
	}
}
