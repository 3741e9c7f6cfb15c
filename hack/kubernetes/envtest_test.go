package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
)

const (
	pinnedVersion = "v1.37.2"
	compiled      = "compiled"
	platform      = runtime.GOOS + "-" + runtime.GOARCH
)

func TestDownload(t *testing.T) {
	whole := binaries()
	for _, c := range []struct {
		name     string
		archives []listedArchive
		want     string // the version that is downloaded, or compiled
		progress string
	}{
		{"pinned version", []listedArchive{
			{version: "v1.37.2", platform: platform, files: whole},
			{version: "v1.37.10", platform: platform, files: whole},
		}, "v1.37.2", "downloading kube-apiserver, etcd and kubectl v1.37.2"},
		{"newest patch of the same minor version", []listedArchive{
			{version: "v1.37.9", platform: platform, files: whole},
			{version: "v1.37.10", platform: platform, files: whole},
			{version: "v1.37.11", platform: "plan9-mips", files: whole},
			{version: "v1.38.0", platform: platform, files: whole},
		}, "v1.37.10", "lacks v1.37.2; using v1.37.10"},
		{"other minor versions", []listedArchive{
			{version: "v1.36.2", platform: platform, files: whole},
			{version: "v1.38.2", platform: platform, files: whole},
		}, compiled, "lists no patch of v1.37 for " + runtime.GOOS + "/" + runtime.GOARCH},
		{"other platforms", []listedArchive{
			{version: "v1.37.2", platform: "plan9-mips", files: whole},
		}, compiled, "lists no patch of v1.37"},
		{"wrong checksum", []listedArchive{
			{version: "v1.37.2", platform: platform, files: whole, sum: strings.Repeat("0", 128)},
		}, compiled, "checksum mismatch for envtest-v1.37.2"},
		{"no checksum", []listedArchive{
			{version: "v1.37.2", platform: platform, files: whole, sum: `""`},
		}, compiled, "checksum mismatch for envtest-v1.37.2"},
		{"incomplete archive", []listedArchive{
			{version: "v1.37.2", platform: platform, files: []string{"etcd", "kube-apiserver"}},
		}, compiled, "it has no kubectl"},
		{"absent archive", []listedArchive{
			{version: "v1.37.2", platform: platform},
		}, compiled, "404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, progress := fillFrom(t, unlimited(serveIndex(t, c.archives)+"/index.yaml"))
			if !strings.Contains(progress, c.progress) {
				t.Errorf("progress lacks %q:\n%s", c.progress, progress)
			}
			checkSet(t, dir, c.want)
		})
	}
}

func TestAbsentIndexLeadsToCompiling(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for _, c := range []struct{ name, url, reason string }{
		{"not found", serveIndex(t, nil) + "/absent", "404"},
		{"connection refused", closed.URL, "refused"},
	} {
		dir, progress := fillFrom(t, unlimited(c.url))
		if !strings.Contains(progress, c.reason) || !strings.Contains(progress, "compiling instead") {
			t.Errorf("%s: progress lacks %q or the reaction:\n%s", c.name, c.reason, progress)
		}
		checkSet(t, dir, compiled)
	}
}

func TestSlowIndexLeadsToCompiling(t *testing.T) {
	for _, c := range []struct{ name, sent string }{
		{"no answer", ""},
		{"half an answer", "releases:\n"},
	} {
		asked := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.sent != "" {
				_, _ = io.WriteString(w, c.sent)
				_ = http.NewResponseController(w).Flush()
			}
			close(asked)
			<-r.Context().Done()
		}))
		t.Cleanup(server.Close)
		slow := index{client: &remote.HTTPClient{IndexURL: server.URL}, limit: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			go func() {
				select {
				case <-asked:
					cancel(errors.New("the test's deadline"))
				case <-ctx.Done():
				}
			}()
			return ctx, func() { cancel(nil) }
		}}
		dir, progress := fillFrom(t, slow)
		if !strings.Contains(progress, "the test's deadline; compiling instead") {
			t.Errorf("%s: progress lacks the deadline:\n%s", c.name, progress)
		}
		checkSet(t, dir, compiled)
	}
}

func TestPublicIndexHasADeadline(t *testing.T) {
	ctx, cancel := publicIndex().limit(t.Context())
	defer cancel()
	if _, limited := ctx.Deadline(); !limited {
		t.Error("the index can take forever")
	}
}

func TestInterruptedDownloadIsNotCompiled(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	}))
	defer server.Close()
	s := sources{index: unlimited(server.URL), compile: func(context.Context, string, pins, io.Writer) error {
		t.Error("compiled after the interrupt")
		return nil
	}}
	dir := filepath.Join(t.TempDir(), "set")
	if err := s.fill(ctx, dir, pins{kubernetes: pinnedVersion}, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the interrupt", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the set exists: %v", err)
	}
}

func TestCompleteSetIsNotObtainedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	writeSet(t, dir, binaries()...)
	if err := (sources{}).fill(t.Context(), dir, pins{kubernetes: pinnedVersion}, io.Discard); err != nil {
		t.Error(err)
	}
}

// unlimited returns an index without a deadline.
func unlimited(url string) index {
	return index{client: &remote.HTTPClient{IndexURL: url}, limit: context.WithCancel}
}

// fillFrom fills a folder in which a killed run has left files, and returns the folder and the printed progress.
func fillFrom(t *testing.T, i index) (dir, progress string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "set")
	writeSet(t, dir, "etcd")
	writeSet(t, dir+".partial", binaries()...)
	s := sources{index: i, compile: func(_ context.Context, dir string, _ pins, _ io.Writer) error {
		return writeContents(dir, compiled)
	}}
	var printed bytes.Buffer
	if err := s.fill(t.Context(), dir, pins{kubernetes: pinnedVersion}, &printed); err != nil {
		t.Fatal(err)
	}
	return dir, printed.String()
}

func writeContents(dir, content string) error {
	for _, name := range binaries() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// checkSet fails the test unless dir contains the programs with the content, and nothing else.
func checkSet(t *testing.T, dir, content string) {
	t.Helper()
	if missing := lacks(dir); len(missing) > 0 {
		t.Errorf("the set has no %s", strings.Join(missing, ", no "))
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(binaries()) {
		t.Errorf("the set is %v", files)
	}
	for _, file := range files {
		got, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil || string(got) != content {
			t.Errorf("%s is from %q, want %q; %v", file.Name(), got, content, err)
		}
	}
	if _, err := os.Stat(dir + ".partial"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the partial set remains: %v", err)
	}
}

// listedArchive is an entry of the index. Its programs contain its version.
type listedArchive struct {
	version, platform string
	files             []string // none: the server does not have the archive
	sum               string   // empty: the right one
}

// serveIndex serves /index.yaml and the archives in it until the test ends, and returns the server's URL.
func serveIndex(t *testing.T, archives []listedArchive) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	var listed strings.Builder
	listed.WriteString("releases:\n")
	for _, a := range archives {
		name := "envtest-" + a.version + "-" + a.platform + ".tar.gz"
		packed := pack(t, a)
		sum := sha512.Sum512(packed)
		if a.sum == "" {
			a.sum = hex.EncodeToString(sum[:])
		}
		fmt.Fprintf(&listed, "  %s-%s:\n    %s:\n      hash: %s\n      selfLink: %s/%s\n", a.version, a.platform, name, a.sum, server.URL, name)
		if len(a.files) > 0 {
			mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed) })
		}
	}
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, listed.String()) })
	return server.URL
}

// pack returns the archive in the layout of kubebuilder's: programs in a folder, which is an entry of its own.
func pack(t *testing.T, a listedArchive) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	files := tar.NewWriter(compressed)
	headers := []tar.Header{{Name: "controller-tools/envtest/", Typeflag: tar.TypeDir, Mode: 0o755}}
	for _, name := range append([]string{"README"}, a.files...) {
		headers = append(headers, tar.Header{Name: "controller-tools/envtest/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(a.version))})
	}
	for _, header := range headers {
		if err := files.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(files, a.version); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(files.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}
