package controlplane_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"examprep.dev/hack/dev/controlplane"
	"examprep.dev/hack/dev/devtest"
	"examprep.dev/hack/dev/state"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestAControlPlaneServesItsUsersAndKeepsWhatTheyMade(t *testing.T) {
	binaries := os.Getenv("KUBEBUILDER_ASSETS")
	if binaries == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set; make test sets it")
	}
	dir := t.TempDir()
	ports, err := state.Dir(dir).OpenPorts()
	check.NoError(t, err)
	cfg := controlplane.Config{
		Binaries: binaries, Dir: filepath.Join(dir, "kubernetes"), Throwaway: true,
		Etcd: address(t, ports, "etcd"), EtcdPeer: address(t, ports, "peer"), APIServer: address(t, ports, "api"),
	}
	kubectl := func(kubeconfig string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}

	s := devtest.Supervisor(t, dir)
	plane, err := controlplane.Start(t.Context(), s, cfg)
	check.NoError(t, err)
	admin := writeConfig(t, dir, "admin", plane.Admin)
	pod := writeConfig(t, dir, "pod", func() ([]byte, error) { return plane.ServiceAccount("default", "examprep") })
	if out, err := kubectl(admin, "create", "configmap", "kept", "--from-literal=a=b"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := kubectl(pod, "get", "configmaps"); err == nil || !strings.Contains(out, `"system:serviceaccount:default:examprep" cannot list`) {
		t.Errorf("a service account without a role: %v: %s", err, out)
	}
	s.Stop()

	// The second start is on the same data with the same authority: a kubeconfig from before goes on working. A port
	// that was taken meanwhile does not matter.
	cfg.EtcdPeer = address(t, ports, "peer-moved")
	_, err = controlplane.Start(t.Context(), devtest.Supervisor(t, dir), cfg)
	check.NoError(t, err)
	if out, err := kubectl(admin, "get", "configmap", "kept"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func address(t *testing.T, ports *state.Ports, name string) string {
	t.Helper()
	got, err := ports.Address(t.Context(), name)
	check.NoError(t, err)
	return got
}

func writeConfig(t *testing.T, dir, name string, issue func() ([]byte, error)) string {
	t.Helper()
	text, err := issue()
	check.NoError(t, err)
	path := filepath.Join(dir, name+".kubeconfig")
	testkit.WriteFile(t, path, text)
	return path
}
