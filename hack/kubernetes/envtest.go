package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	// setupEnvtest is the program that kubebuilder projects fetch control-plane binaries with.
	setupEnvtest = "sigs.k8s.io/controller-runtime/tools/setup-envtest@v0.25.1"
	// envtestIndex is what setup-envtest reads first; if it does not answer, nothing that follows would.
	envtestIndex = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
	// probeTime is how long a machine without the open internet waits in vain.
	probeTime = 5 * time.Second
	// fetchTime bounds the download itself, once the index has answered: a fraction of what building takes.
	fetchTime = 90 * time.Second
	// minorsBehind is how many minor versions an installed set may be behind the pinned one: CEL and field selectors of
	// custom resources, which the tests rely on, are older than that.
	minorsBehind = 3
)

// envtest returns a directory of setup-envtest's store that holds a usable set, fetching one if that is quick, or "".
// Whatever fails here only means that the set is built.
func envtest(ctx context.Context, want string, progress io.Writer) string {
	store := envtestStore()
	if store == "" {
		return ""
	}
	if dir := newestUsable(store, want); dir != "" {
		return dir
	}
	if !reachable(ctx, envtestIndex) {
		return ""
	}
	fmt.Fprintln(progress, "kubernetes: fetching control-plane binaries with setup-envtest")
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	minor := strings.Join(strings.SplitN(strings.TrimPrefix(want, "v"), ".", 3)[:2], ".")
	for _, version := range []string{minor + ".x", "latest"} {
		cmd := goCommand(ctx, "run", setupEnvtest, "use", version, "--bin-dir", filepath.Dir(store), "-p", "path")
		cmd.Env = append(cmd.Env, "GOFLAGS=-mod=mod")
		if _, err := output(cmd); err == nil {
			if dir := newestUsable(store, want); dir != "" {
				return dir
			}
		}
	}
	return ""
}

// envtestStore is setup-envtest's default directory, "" if the system has no place for it.
func envtestStore() string {
	base := os.Getenv("XDG_DATA_HOME")
	if home, err := os.UserHomeDir(); base == "" && err == nil {
		base = filepath.Join(home, ".local", "share")
		if runtime.GOOS == "darwin" {
			base = filepath.Join(home, "Library", "Application Support", "io.kubebuilder.envtest")
			return filepath.Join(base, "k8s")
		}
	}
	if base == "" {
		return ""
	}
	return filepath.Join(base, "kubebuilder-envtest", "k8s")
}

// newestUsable returns the newest complete set in store (directories named VERSION-OS-ARCH) that is no more than
// minorsBehind behind want, or "". A set without kubectl is passed over.
func newestUsable(store, want string) string {
	suffix := "-" + runtime.GOOS + "-" + runtime.GOARCH
	entries, err := os.ReadDir(store)
	if err != nil {
		return ""
	}
	wanted, _ := parseVersion(want)
	var found []version
	for _, entry := range entries {
		name, ours := strings.CutSuffix(entry.Name(), suffix)
		v, ok := parseVersion(name)
		if !ours || !ok || v[0] != wanted[0] || v[1] < wanted[1]-minorsBehind {
			continue
		}
		if len(lacks(filepath.Join(store, entry.Name()))) == 0 {
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		return ""
	}
	sort.Slice(found, func(i, j int) bool { return found[j].less(found[i]) })
	return filepath.Join(store, found[0].String()+suffix)
}

// version is major, minor, patch.
type version [3]int

func parseVersion(text string) (version, bool) {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	if len(parts) != 3 {
		return version{}, false
	}
	var v version
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return version{}, false
		}
		v[i] = n
	}
	return v, true
}

func (v version) less(other version) bool {
	for i := range v {
		if v[i] != other[i] {
			return v[i] < other[i]
		}
	}
	return false
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// reachable reports whether url answers 200 within probeTime.
func reachable(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}
