package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// toolchain compiles the binary, wherever it is built: go fetches it by checksum where another is installed.
	toolchain = "go1.26.8"
	// user is the one without rights that Kubernetes' restricted profile wants to see as a number.
	user = "65532:65532"

	binaryPath = "examprep"
	rootsPath  = "etc/ssl/certs/ca-certificates.crt"
)

// A file of the image.
type file struct {
	// path has no leading slash.
	path string
	mode int64
	// content is what is in it, or source where it lies.
	content []byte
	source  string
}

// accounts name the user, for programs that look one up; the kernel needs none.
func accounts() []file {
	return []file{
		{path: "etc/group", mode: 0o644, content: []byte("nonroot:x:65532:\n")},
		{path: "etc/passwd", mode: 0o644, content: []byte("nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
	}
}

// roots are the certificate authorities that Mozilla's programme trusts without reserve. Those that it trusts for older
// certificates only are left out: a file of certificates cannot say so.
func roots() file {
	var text strings.Builder
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Builder takes everything
		}
	}
	return file{path: rootsPath, mode: 0o644, content: []byte(text.String())}
}

// compile builds the binary for platform into folder and returns its path.
func compile(ctx context.Context, s settings, platform v1.Platform, folder string) (string, error) {
	output := filepath.Join(folder, "examprep-"+platform.Architecture+platform.Variant)
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X examprep.dev/server/command.stamped="+s.version, "-o", output, ".")
	command.Dir = s.source
	command.Env = append(os.Environ(),
		"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOTOOLCHAIN="+toolchain, "GOEXPERIMENT=",
		"GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOAMD64=v1", "GOARM64=v8.0", "GOARM="+strings.TrimPrefix(platform.Variant, "v"))
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("build for %s: %w", platform.String(), err)
	}
	return output, nil
}

// digestOf returns the SHA-256 of a file, and its size in bytes.
func digestOf(path string) (digest string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// writeRootfs writes the image's files, for a container engine to make the same image of.
func writeRootfs(ctx context.Context, s settings) error {
	if len(s.platforms) != 1 {
		return fmt.Errorf("-rootfs: one platform at a time, got %d", len(s.platforms))
	}
	temporary, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	binary, err := compile(ctx, s, s.platforms[0], temporary)
	if err != nil {
		return err
	}
	for _, f := range append(accounts(), roots(), file{path: binaryPath, mode: 0o755, source: binary}) {
		if err := writeFile(s.rootfs, f, s.created); err != nil {
			return err
		}
	}
	return settleFolders(s.rootfs, s.created)
}

func writeFile(folder string, f file, at time.Time) error {
	target := filepath.Join(folder, filepath.FromSlash(f.path))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	content := f.content
	if f.source != "" {
		var err error
		if content, err = os.ReadFile(f.source); err != nil {
			return err
		}
	}
	if err := os.WriteFile(target, content, os.FileMode(f.mode)); err != nil {
		return err
	}
	return os.Chtimes(target, at, at)
}

// settleFolders gives every folder the time that the files have.
func settleFolders(folder string, at time.Time) error {
	return filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chtimes(path, at, at)
	})
}
