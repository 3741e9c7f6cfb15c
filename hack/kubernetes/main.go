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

// assetsVariable names a folder that already contains the programs.
const assetsVariable = "KUBEBUILDER_ASSETS"

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

// binaries returns the names of the programs in a set.
func binaries() []string { return []string{"etcd", "kube-apiserver", "kubectl"} }

// obtain returns the folder of a complete set.
func obtain(ctx context.Context, progress io.Writer) (string, error) {
	if dir := os.Getenv(assetsVariable); dir != "" {
		return dir, checkAssets(dir)
	}
	pinned, err := readPins(ctx)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache: %w", err)
	}
	dir := filepath.Join(cache, "examprep", "kubernetes", pinned.String())
	return dir, sources{index: publicIndex(), compile: compile}.fill(ctx, dir, pinned, progress)
}

// checkAssets returns an error unless dir, the value of the variable, contains a set.
func checkAssets(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%s: %q is not an absolute path", assetsVariable, dir)
	}
	if missing := lacks(dir); len(missing) > 0 {
		return fmt.Errorf("%s: %s has no %s; name a folder with %s, or unset the variable",
			assetsVariable, dir, strings.Join(missing, ", no "), strings.Join(binaries(), ", "))
	}
	return nil
}

// lacks returns the names of the programs that are not in dir or are not executable.
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

// String returns the name of the set's folder.
func (p pins) String() string { return p.kubernetes + "-etcd-" + p.etcd }

// readPins reads the versions with the go command, so that only go.mod contains them.
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

// goCommand returns a go command for the working directory, which is hack/kubernetes. The caller's GOFLAGS can contain
// flags for another module (-mod=mod) or for tests (-race), so they are replaced.
func goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// output returns the standard output of a command. The error contains the command's standard error.
func output(cmd *exec.Cmd) (string, error) {
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}
