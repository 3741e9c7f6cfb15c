package command

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// shell returns the program in a shell with a REDIS_URL. An empty one is as none.
func (e *env) shell(redisURL string) *testkit.Program {
	return &testkit.Program{Path: e.Path, Env: append(slices.Clone(e.Env), "REDIS_URL="+redisURL)}
}

func stop(pods []*testkit.Pod) {
	var group sync.WaitGroup
	for _, pod := range pods {
		group.Go(pod.Stop)
	}
	group.Wait()
}

// wantStatus sends a request with a key to each pod, without a pause.
func wantStatus(t *testing.T, pods []*testkit.Pod, key string, want int, when string) {
	t.Helper()
	for i, pod := range pods {
		response, body := testkit.Call(t, http.DefaultTransport.RoundTrip, http.MethodGet, "http://"+pod.Address+"/v1/exam-prep/list", "",
			map[string]string{"Authorization": "Bearer " + key})
		check.Equal(t, response.StatusCode, want, "%s: status of pod %d: %s", when, i, body)
	}
}

// TestKeysCommandHoldsAtEveryPodWhateverRedisItsShellHas changes keys of two API pods from shells with another REDIS_URL.
func TestKeysCommandHoldsAtEveryPodWhateverRedisItsShellHas(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	pods := []*testkit.Pod{s.start("api"), s.start("api")}
	defer stop(pods)
	for name, redisURL := range map[string]string{
		"no REDIS_URL":                 "",
		"another logical database":     strings.TrimSuffix(s.Cache, cacheDatabase) + searchedDatabase,
		"another Redis server":         testkit.StartRedis(t).URL(),
		"a Redis that is unreachable":  "redis://" + testkit.FreeAddress(t),
		"the Redis of the pods itself": s.Cache,
	} {
		t.Run(name, func(t *testing.T) {
			shell := s.shell(redisURL)
			key := shell.NewKey(t, "acme")
			wantStatus(t, pods, key, http.StatusOK, "after its creation")
			shell.Run(t, "keys", "revoke", key[:keys.PrefixLength])
			wantStatus(t, pods, key, http.StatusUnauthorized, "after its revocation")
		})
	}
}

// TestAPIPodWhoseKeysExceedItsBudgetFailsItsStart starts an API pod with more keys than fit into 1 MiB.
func TestAPIPodWhoseKeysExceedItsBudgetFailsItsStart(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	key := s.newKey("acme")
	insertKeys(t, s.Database, 20_000)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience) // ends a pod that starts
	defer cancel()
	pod := testkit.NewPod(t)
	command := exec.CommandContext(ctx, s.Path, "api", "--key-directory-mib", "1",
		"--listen", pod.Address, "--health-listen", pod.Health, "--metrics-listen", pod.Metrics)
	command.Env = append(os.Environ(), s.Env...)
	output, err := command.CombinedOutput()
	failed, exited := errors.AsType[*exec.ExitError](err)
	if !exited || failed.ExitCode() != 1 {
		t.Fatalf("the pod ended with %v, want exit code 1:\n%s", err, output)
	}
	if last := output[bytes.LastIndexByte(bytes.TrimSpace(output), '\n')+1:]; !bytes.Contains(last, []byte("raise --key-directory-mib ")) {
		t.Errorf("the last line does not name the setting: %s", last)
	}
	pods := []*testkit.Pod{s.start("api", "--key-directory-mib", "4")}
	defer stop(pods)
	wantStatus(t, pods, key, http.StatusOK, "with a larger budget")
}
