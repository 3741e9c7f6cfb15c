package npm

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"examprep.dev/hack/dev/servers"
)

//go:embed package.json
var manifest []byte

//go:embed package-lock.json
var lockfile []byte

// Dir is where the packages are installed: node_modules is in it, and Node itself is its bin/node.
type Dir string

// Install returns the directory of the packages, which it fills if no run before has. It says on progress what it does.
func Install(ctx context.Context, progress io.Writer) (Dir, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache: %w", err)
	}
	return installIn(ctx, filepath.Join(cache, "examprep", "npm"), progress)
}

// installIn keeps each set below cache under a name of its own: the digest of what it holds, and for which system.
func installIn(ctx context.Context, cache string, progress io.Writer) (Dir, error) {
	sum := sha256.New()
	sum.Write(manifest)
	sum.Write(lockfile)
	dir := filepath.Join(cache, fmt.Sprintf("%s-%s-%s", hex.EncodeToString(sum.Sum(nil))[:16], runtime.GOOS, runtime.GOARCH))
	if isThere(dir) {
		return Dir(dir), nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	unlock, err := lock(ctx, dir+".lock", progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if isThere(dir) {
		return Dir(dir), nil
	}
	// What a killed run left: the lock is ours, so nobody is writing there.
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", fmt.Errorf("remove what an interrupted run left: %w", err)
	}
	if err := fill(ctx, partial, progress); err != nil {
		return "", err
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", fmt.Errorf("put the packages in place: %w", err)
	}
	return Dir(dir), nil
}

func isThere(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

// fill installs the packages into dir.
func fill(ctx context.Context, dir string, progress io.Writer) error {
	if err := servers.Require(servers.NPM()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return fmt.Errorf("make a directory for the packages: %w", err)
	}
	for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": lockfile} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	fmt.Fprintf(progress, "npm: installing the packages of hack/npm, once, into %s\n", strings.TrimSuffix(dir, ".partial"))
	cmd := exec.CommandContext(ctx, servers.Look("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+path("/usr/local/bin", "/usr/bin")) // npm is a program of the machine's Node
	var said strings.Builder                                                   // pages that nobody reads unless it fails
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, strings.TrimSpace(said.String()))
	}
	return linkNode(dir)
}

// linkNode gives Node one name, whatever the package of this system is called; where there is none, the machine's serves.
func linkNode(dir string) error {
	link := filepath.Join(dir, "bin", "node")
	found, _ := filepath.Glob(filepath.Join(dir, "node_modules", "node-*", "bin", "node")) // the pattern is well-formed
	target := servers.Look("node")
	if len(found) > 0 {
		target = filepath.Join("..", strings.TrimPrefix(found[0], dir))
	}
	if target == "" {
		return errors.New("there is no Node: neither a package for this system nor the machine's own")
	}
	if err := os.Symlink(target, link); err != nil {
		return fmt.Errorf("link Node: %w", err)
	}
	return nil
}

// Environment is what programs of the packages need to run: Node in PATH, and to call nobody.
func (d Dir) Environment() []string {
	return []string{
		"PATH=" + path(filepath.Join(string(d), "bin"), filepath.Join(string(d), "node_modules", ".bin")),
		"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true",
	}
}

// Program is the path of a program that one of the packages brings.
func (d Dir) Program(name string) string {
	return filepath.Join(string(d), "node_modules", ".bin", name)
}

// File is the path of a file of the packages, named from node_modules on: preact/LICENSE.
func (d Dir) File(name string) string {
	return filepath.Join(string(d), "node_modules", filepath.FromSlash(name))
}

// path is PATH with dirs before it.
func path(dirs ...string) string {
	return strings.Join(append(dirs, os.Getenv("PATH")), string(os.PathListSeparator))
}

// lock takes an exclusive lock on path, which the kernel releases when the process ends, however it ends.
func lock(ctx context.Context, path string, progress io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for told := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !told {
			fmt.Fprintln(progress, "npm: another run is installing the packages; waiting for it")
			told = true
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for another run: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
