package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	dir, err := obtain(ctx, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

// binaries are the programs that a set consists of.
func binaries() []string { return []string{"etcd", "kube-apiserver", "kubectl"} }

// obtain returns the directory of a complete set.
func obtain(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		if missing := lacks(dir); len(missing) > 0 {
			return "", fmt.Errorf("KUBEBUILDER_ASSETS is %s, where there is no %s", dir, strings.Join(missing, ", no "))
		}
		return filepath.Abs(dir)
	}
	pinned, err := readPins(ctx)
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, pinned.String())
	if len(lacks(dir)) == 0 {
		return dir, nil
	}
	if os.Getenv("EXAMPREP_OFFLINE") == "" {
		if dir := envtest(ctx, pinned.kubernetes, progress); dir != "" {
			return dir, nil
		}
	}
	return dir, buildOnce(ctx, dir, pinned, progress)
}

// cacheDir is where built sets are kept, in the user's cache.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache: %w", err)
	}
	return filepath.Join(cache, "examprep", "kubernetes"), nil
}

// lacks names the binaries that are not in dir, or not executable.
func lacks(dir string) []string {
	var missing []string
	for _, name := range binaries() {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// pins are the versions that go.mod requires, with their leading v.
type pins struct{ kubernetes, etcd string }

// String names the set's directory.
func (p pins) String() string { return p.kubernetes + "-etcd-" + p.etcd }

// readPins asks the go command for the versions, so that they stand in go.mod alone.
func readPins(ctx context.Context) (pins, error) {
	out, err := output(goCommand(ctx, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes", "go.etcd.io/etcd/server/v3"))
	if err != nil {
		return pins{}, fmt.Errorf("read the versions from hack/kubernetes/go.mod: %w", err)
	}
	versions := strings.Fields(out)
	if len(versions) != 2 {
		return pins{}, fmt.Errorf("read the versions from hack/kubernetes/go.mod: got %q", out)
	}
	return pins{kubernetes: versions[0], etcd: versions[1]}, nil
}

// goCommand runs the go command in the directory this program was started in, which `go run -C hack/kubernetes .` makes
// the module's own. The caller's GOFLAGS may belong to another module's needs (-mod=mod) or to tests (-race), so only
// what decides how modules are found is kept.
func goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// output is what a command prints; its error carries what it complained of.
func output(cmd *exec.Cmd) (string, error) {
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}
