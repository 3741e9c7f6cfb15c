package command

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/memory"
)

func TestAProcessHasTheConnectionsThatItIsGiven(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	s.Env = append(s.Env, "EXAMPREP_POOL_MAX_CONNS=7")
	for _, args := range [][]string{{"api", "--listen=127.0.0.1:0"}, {"worker"}} {
		pod := s.start(args...)
		if want := []byte("\nexamprep_postgres_pool_max_connections 7\n"); !bytes.Contains([]byte(pod.Scrape()), want) {
			t.Errorf("the %s's metrics lack %s", args[0], want)
		}
		pod.Stop()
	}
}

func TestAnAPIPodCachesAsMuchAsItIsGiven(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	s.Env = append(s.Env, "EXAMPREP_CACHE_MIB=50")
	pod := s.start("api", "--listen=127.0.0.1:0")
	metrics := []byte(pod.Scrape())
	for _, want := range []string{
		`examprep_catalog_cache_max_bytes{cache="papers"} 4.194304e+07`, `examprep_catalog_cache_max_bytes{cache="answer_keys"} 1.048576e+07`,
	} {
		if !bytes.Contains(metrics, []byte(want)) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	pod.Stop()
}

func TestNumbersThatLeaveNothingToWorkWithAreRefused(t *testing.T) {
	t.Setenv("EXAMPREP_POOL_MAX_CONNS", "0")
	var errors strings.Builder
	code := patient().Execute([]string{"worker", "--environment=sandbox", "--database-url=postgres://nowhere/none"}, strings.NewReader(""), io.Discard, &errors)
	if code != 2 || !strings.Contains(errors.String(), "--pool-max-conns") {
		t.Errorf("no connections: exit code %d, %s", code, errors.String())
	}
	for _, cache := range []uint{4, 320 << 20} {
		flags := apiFlags{processFlags: processFlags{redisURL: "redis://nowhere", shutdownGrace: time.Minute}, namespaceSecret: namespaceSecret, memory: memory.Overrides{CacheMiB: cache}}
		if _, err := flags.parse(); err == nil || !strings.Contains(err.Error(), "--cache-mib") {
			t.Errorf("a cache of %d MiB: %v", cache, err)
		}
	}
}
