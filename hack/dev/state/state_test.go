package state_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"examprep.dev/hack/dev/state"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestEnvKeepsItsOrderAndIsReadBack(t *testing.T) {
	dir := state.Dir(t.TempDir())
	url := "postgres://u:p@127.0.0.1:1/db?sslmode=disable"
	check.NoError(t, dir.WriteEnv(state.EnvFile, []state.Variable{{"API_URL", "http://127.0.0.1:8080/v1"}, {"DATABASE_URL", url}, state.Ready()}))
	text := testkit.ReadFile(t, dir.Path("env"))
	check.Equal(t, string(text), "API_URL=http://127.0.0.1:8080/v1\nDATABASE_URL="+url+"\nREADY=1\n", "stored file")
	variables, err := dir.ReadEnv(state.EnvFile)
	if err != nil || variables["DATABASE_URL"] != url {
		t.Errorf("read back %v, %v", variables, err)
	}
	if info, _ := os.Stat(dir.Path("env")); info.Mode().Perm() != 0o600 {
		t.Errorf("the key is readable by others: %s", info.Mode())
	}
}

func TestEnvWithTheSameContentIsNotRewritten(t *testing.T) {
	dir := state.Dir(t.TempDir())
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, step := range []struct {
		value     string
		rewritten bool
	}{{"a", true}, {"a", false}, {"b", true}} {
		check.NoError(t, dir.WriteEnv(state.TestEnvFile, []state.Variable{{"NAME", step.value}}))
		info, err := os.Stat(dir.Path(state.TestEnvFile))
		check.NoError(t, err)
		check.Equal(t, !info.ModTime().Equal(old), step.rewritten, "%s: rewritten", step.value)
		check.NoError(t, os.Chtimes(dir.Path(state.TestEnvFile), old, old))
	}
}

func TestLockIsGivenToOneAtATime(t *testing.T) {
	dir := state.Dir(t.TempDir())
	unlock, err := dir.Lock(t.Context(), "start.lock", func() { t.Error("waits for a free lock") })
	check.NoError(t, err)
	waited := false
	second, err := dir.Lock(t.Context(), "start.lock", func() { waited = true; unlock() })
	if err != nil || !waited {
		t.Fatalf("waited %t, %v", waited, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := dir.Lock(ctx, "start.lock", cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	second()
}

func TestEnvRefusesAValueThatWouldForgeALine(t *testing.T) {
	dir := state.Dir(t.TempDir())
	if err := dir.WriteEnv(state.EnvFile, []state.Variable{{"API_KEY", "x\nREADY=1"}}); err == nil {
		t.Error("taken")
	}
}

func TestAMissingEnvIsEmpty(t *testing.T) {
	if variables, err := state.Dir(t.TempDir()).ReadEnv(state.EnvFile); err != nil || len(variables) != 0 {
		t.Errorf("got %v, %v", variables, err)
	}
}

func TestPortsStayTheSameWhileTheyAreFree(t *testing.T) {
	dir := state.Dir(t.TempDir())
	first := address(t, dir, "api")
	check.Equal(t, address(t, dir, "api"), first, "address of the same port")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", first)
	check.NoError(t, err)
	defer listener.Close()
	moved := address(t, dir, "api")
	if moved == first {
		t.Errorf("%s is somebody else's", first)
	}
	check.Equal(t, address(t, dir, "api"), moved, "address once moved")
}

func TestTwoNamesNeverShareAPort(t *testing.T) {
	dir := state.Dir(t.TempDir())
	check.NoError(t, dir.WriteFile("ports.json", []byte(`{"api": 20100, "worker": 20100}`), 0o644))
	ports, err := dir.OpenPorts()
	check.NoError(t, err)
	a, errA := ports.Address(t.Context(), "api")
	b, errB := ports.Address(t.Context(), "worker")
	if errA != nil || errB != nil || a == b {
		t.Errorf("got %s (%v) and %s (%v)", a, errA, b, errB)
	}
}

func TestASecretIsMadeOnce(t *testing.T) {
	dir := state.Dir(t.TempDir())
	made := func() string { return state.RandomHex(16) }
	first, err := dir.Secret("namespace", made)
	check.NoError(t, err)
	if again, err := dir.Secret("namespace", made); err != nil || again != first || len(first) != 32 {
		t.Errorf("%q became %q, %v", first, again, err)
	}
	if info, _ := os.Stat(dir.Path("secrets", "namespace")); info.Mode().Perm() != 0o600 {
		t.Errorf("readable by others: %s", info.Mode())
	}
}

func TestOneProcessHoldsTheDirectory(t *testing.T) {
	dir := state.Dir(t.TempDir())
	if pid, err := dir.Holder(); err != nil || pid != 0 {
		t.Errorf("held by %d, %v before anybody took it", pid, err)
	}
	release, err := dir.Hold()
	check.NoError(t, err)
	var held *state.HeldError
	if _, err := dir.Hold(); !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Errorf("held twice: %v", err)
	}
	if pid, err := dir.Holder(); err != nil || pid != os.Getpid() {
		t.Errorf("holder %d, %v", pid, err)
	}
	release()
	if pid, err := dir.Holder(); err != nil || pid != 0 {
		t.Errorf("still held by %d, %v", pid, err)
	}
}

func address(t *testing.T, dir state.Dir, name string) string {
	t.Helper()
	ports, err := dir.OpenPorts()
	check.NoError(t, err)
	got, err := ports.Address(t.Context(), name)
	check.NoError(t, err)
	if !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("%s is not loopback", got)
	}
	return got
}
