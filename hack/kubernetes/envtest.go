package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/versions"
)

const (
	// indexTime limits how long a machine without the open internet waits for the index.
	indexTime = 5 * time.Second
	// archiveTime limits the download after the index has answered.
	archiveTime = 5 * time.Minute
)

// index lists the archives that setup-envtest downloads, with their checksums.
type index struct {
	client remote.Client
	// limit returns a context that ends when the index has taken too long.
	limit func(context.Context) (context.Context, context.CancelFunc)
}

// publicIndex returns the index that kubebuilder's projects use.
func publicIndex() index {
	return index{client: new(remote.HTTPClient), limit: func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, indexTime, fmt.Errorf("no answer within %s", indexTime))
	}}
}

// download puts the pinned version, or else the newest patch of the same minor version, into dir.
func (i index) download(ctx context.Context, dir, pinned string, progress io.Writer) error {
	version, platform, err := i.choose(ctx, pinned)
	if err != nil {
		return err
	}
	if got := "v" + version.String(); got != pinned {
		fmt.Fprintf(progress, "kubernetes: setup-envtest's index lacks %s; using %s, its newest patch of the same minor version\n", pinned, got)
	}
	fmt.Fprintf(progress, "kubernetes: downloading kube-apiserver, etcd and kubectl v%s: about 65 MB, a minute at 10 Mbit/s\n", version)
	ctx, cancel := context.WithTimeoutCause(ctx, archiveTime, fmt.Errorf("not complete within %s", archiveTime))
	defer cancel()
	archive, err := os.Create(filepath.Join(dir, platform.ArchiveName(version)))
	if err != nil {
		return fmt.Errorf("create the archive: %w", err)
	}
	defer archive.Close()
	var received byteCount
	stop := show(progress, &received)
	err = i.client.GetVersion(ctx, version, platform, io.MultiWriter(archive, &received)) // verifies the checksum
	stop()
	if err != nil {
		return fmt.Errorf("download from setup-envtest's index: %w", reason(ctx, err))
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	if err := unpack(archive, dir); err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(archive.Name()), err)
	}
	return os.Remove(archive.Name())
}

// choose returns a version in the index and this machine's platform, with the archive's checksum.
func (i index) choose(ctx context.Context, pinned string) (versions.Concrete, versions.PlatformItem, error) {
	ctx, cancel := i.limit(ctx)
	defer cancel()
	listed, err := i.client.ListVersions(ctx) // newest first
	if err != nil {
		return versions.Concrete{}, versions.PlatformItem{}, fmt.Errorf("read setup-envtest's index: %w", reason(ctx, err))
	}
	exact, err := parseVersion(pinned)
	if err != nil {
		return versions.Concrete{}, versions.PlatformItem{}, err
	}
	sameMinor := versions.PatchSelector{Major: exact.Major, Minor: exact.Minor, Patch: versions.AnyPoint}
	here := versions.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, wanted := range []versions.Selector{exact, sameMinor} {
		for _, set := range listed {
			at := slices.IndexFunc(set.Platforms, func(p versions.PlatformItem) bool { return p.Platform == here })
			if at >= 0 && wanted.Matches(set.Version) {
				return set.Version, set.Platforms[at], nil
			}
		}
	}
	return versions.Concrete{}, versions.PlatformItem{},
		fmt.Errorf("setup-envtest's index lists no patch of v%d.%d for %s", exact.Major, exact.Minor, here)
}

// parseVersion reads a version such as v1.37.2.
func parseVersion(text string) (versions.Concrete, error) {
	spec, err := versions.FromExpr(strings.TrimPrefix(text, "v"))
	if err != nil {
		return versions.Concrete{}, fmt.Errorf("read the version %q: %w", text, err)
	}
	version := spec.AsConcrete()
	if version == nil {
		return versions.Concrete{}, fmt.Errorf("read the version %q: it has no patch number", text)
	}
	return *version, nil
}

// unpack writes the programs of the set, and no other file of the archive, to dir.
func unpack(archive io.Reader, dir string) error {
	compressed, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	files := tar.NewReader(compressed)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := path.Base(header.Name)
		if header.Typeflag != tar.TypeReg || !slices.Contains(binaries(), name) {
			continue
		}
		if err := writeProgram(filepath.Join(dir, name), files); err != nil {
			return err
		}
	}
	if missing := lacks(dir); len(missing) > 0 {
		return fmt.Errorf("it has no %s", strings.Join(missing, ", no "))
	}
	return nil
}

func writeProgram(path string, content io.Reader) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// reason returns the cause of ctx's end if ctx has ended, and err if not.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// byteCount counts the bytes that it is given.
type byteCount struct{ bytes atomic.Int64 }

// Write counts p.
func (c *byteCount) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}

// String returns the progress of a download.
func (c *byteCount) String() string { return fmt.Sprintf("%d MB downloaded", c.bytes.Load()/1_000_000) }
