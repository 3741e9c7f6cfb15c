package command

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestAProcessHasTheConnectionsThatItIsGiven(t *testing.T) {
	s := newStage(t)
	s.environment = append(s.environment, "EXAMPREP_POOL_MAX_CONNS=7")
	for _, args := range [][]string{{"api", "--listen=127.0.0.1:0"}, {"worker"}} {
		pod := s.start(args...)
		if want := []byte("\nexamprep_postgres_pool_max_connections 7\n"); !bytes.Contains(s.scrape(pod), want) {
			t.Errorf("the %s's metrics lack %s", args[0], want)
		}
		pod.stop()
	}
}

func TestNumbersThatLeaveNothingToWorkWithAreRefused(t *testing.T) {
	for variable, args := range map[string][]string{
		"EXAMPREP_POOL_MAX_CONNS": {"worker"},
	} {
		t.Setenv(variable, "0")
		var errors strings.Builder
		code := Execute(append(args, "--environment=sandbox", "--database-url=postgres://nowhere/none"), strings.NewReader(""), io.Discard, &errors)
		if flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "EXAMPREP_"), "_", "-")); code != 2 || !strings.Contains(errors.String(), flag) {
			t.Errorf("%s=0: exit code %d, %s", variable, code, errors.String())
		}
	}
}
