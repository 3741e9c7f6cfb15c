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
)

func TestEnvKeepsItsOrderAndIsReadBack(t *testing.T) {
	dir := state.Dir(t.TempDir())
	url := "postgres://u:p@127.0.0.1:1/db?sslmode=disable"
	if err := dir.WriteEnv(state.EnvFile, []state.Variable{{"API_URL", "http://127.0.0.1:8080/v1"}, {"DATABASE_URL", url}, state.Ready()}); err != nil {
		t.Fatal(err)
	}
	text := testkit.ReadFile(t, dir.Path("env"))
	if want := "API_URL=http://127.0.0.1:8080/v1\nDATABASE_URL=" + url + "\nREADY=1\n"; string(text) != want {
		t.Errorf("got %q, want %q", text, want)
	}
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
		if err := dir.WriteEnv(state.TestEnvFile, []state.Variable{{"NAME", step.value}}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir.Path(state.TestEnvFile))
		if err != nil {
			t.Fatal(err)
		}
		if got := !info.ModTime().Equal(old); got != step.rewritten {
			t.Errorf("%s: rewritten %t, want %t", step.value, got, step.rewritten)
		}
		if err := os.Chtimes(dir.Path(state.TestEnvFile), old, old); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLockIsGivenToOneAtATime(t *testing.T) {
	dir := state.Dir(t.TempDir())
	unlock, err := dir.Lock(t.Context(), "start.lock", func() { t.Error("waits for a free lock") })
	if err != nil {
		t.Fatal(err)
	}
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
	if again := address(t, dir, "api"); again != first {
		t.Errorf("%s became %s", first, again)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", first)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	moved := address(t, dir, "api")
	if moved == first {
		t.Errorf("%s is somebody else's", first)
	}
	if again := address(t, dir, "api"); again != moved {
		t.Errorf("%s became %s", moved, again)
	}
}

func TestTwoNamesNeverShareAPort(t *testing.T) {
	dir := state.Dir(t.TempDir())
	if err := dir.WriteFile("ports.json", []byte(`{"api": 20100, "worker": 20100}`), 0o644); err != nil {
		t.Fatal(err)
	}
	ports, err := dir.OpenPorts()
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	got, err := ports.Address(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("%s is not loopback", got)
	}
	return got
}
