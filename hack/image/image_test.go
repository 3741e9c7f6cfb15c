package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func module(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for path, text := range map[string]string{
		"go.mod":                  "module examprep.dev\n\ngo 1.26.0\n",
		"main.go":                 "package main\n\nimport \"examprep.dev/server/command\"\n\nfunc main() { println(command.Version()) }\n",
		"server/command/stamp.go": "package command\n\nvar stamped string\n\nfunc Version() string { return stamped }\n",
	} {
		path = filepath.Join(folder, path)
		noError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		noError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	return folder
}

// archive runs the command as make image does and returns the archive's path.
func archive(t *testing.T, source string, args ...string) string {
	t.Helper()
	output := filepath.Join(t.TempDir(), "image.tar")
	args = append([]string{"-source", source, "-version", "1.2.3", "-o", output}, args...)
	noError(t, run(t.Context(), args, io.Discard))
	return output
}

func sum(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	noError(t, err)
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

func TestTheSameSourceGivesTheSameBytes(t *testing.T) {
	first := archive(t, module(t))
	second := archive(t, module(t)) // another folder
	if sum(t, first) != sum(t, second) {
		t.Error("two builds of one source differ")
	}
	if sum(t, strings.TrimSuffix(first, ".tar")+".cdx.json") != sum(t, strings.TrimSuffix(second, ".tar")+".cdx.json") {
		t.Error("two lists of one image's contents differ")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000001")
	if sum(t, first) == sum(t, archive(t, module(t), "-version", "1.2.4")) {
		t.Error("another version gives the same bytes: the comparison sees nothing")
	}
}

func TestDockerReadsTheArchiveAndFindsAUserWithoutRights(t *testing.T) {
	image, err := tarball.ImageFromPath(archive(t, module(t)), nil)
	noError(t, err)
	config, err := image.ConfigFile()
	noError(t, err)
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/examprep"}) {
		t.Errorf("user %q, entry point %q", config.Config.User, config.Config.Entrypoint)
	}
	if config.Config.Labels["org.opencontainers.image.version"] != "1.2.3" || config.Created.Unix() != 1700000000 {
		t.Errorf("labels %v, created %s", config.Config.Labels, config.Created)
	}
	files := filesOf(t, image)
	if !bytes.Contains(files["examprep"].content, []byte("1.2.3")) || files["examprep"].mode&0o111 == 0 {
		t.Error("the binary is not there, not stamped or not executable")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"].content) || len(pool.Subjects()) < 50 { //nolint:staticcheck // not the system's pool
		t.Error("the roots of trust are not there")
	}
}

func filesOf(t *testing.T, image v1.Image) map[string]file {
	t.Helper()
	layers, err := image.Layers()
	noError(t, err)
	files := make(map[string]file)
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		noError(t, err)
		for reader := tar.NewReader(content); ; {
			header, err := reader.Next()
			if err == io.EOF { //nolint:errorlint // archive/tar returns it bare
				break
			}
			noError(t, err)
			text, err := io.ReadAll(reader)
			noError(t, err)
			if header.Uid != 0 || header.ModTime.Unix() != 1700000000 {
				t.Errorf("%s: owner %d, time %s", header.Name, header.Uid, header.ModTime)
			}
			files[header.Name] = file{path: header.Name, mode: header.Mode, content: text}
		}
	}
	return files
}

func TestNodesFindTheImageByItsFullName(t *testing.T) {
	folder := unpack(t, archive(t, module(t), "-ref", "examprep:1.2.3"))
	index, err := layout.ImageIndexFromPath(folder)
	noError(t, err)
	manifest, err := index.IndexManifest()
	noError(t, err)
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != "docker.io/library/examprep:1.2.3" {
		t.Errorf("the image's name is %q", got)
	}
}

func unpack(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	noError(t, err)
	defer func() { _ = f.Close() }()
	folder := t.TempDir()
	for reader := tar.NewReader(f); ; {
		header, err := reader.Next()
		if err == io.EOF { //nolint:errorlint // archive/tar returns it bare
			return folder
		}
		noError(t, err)
		content, err := io.ReadAll(reader)
		noError(t, err)
		noError(t, writeFile(folder, file{path: header.Name, mode: 0o600, content: content}, header.ModTime))
	}
}

func TestTheListNamesTheCompilerAndTheRoots(t *testing.T) {
	content, err := os.ReadFile(strings.TrimSuffix(archive(t, module(t)), ".tar") + ".cdx.json")
	noError(t, err)
	var list struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct {
			Name       string `json:"name"`
			PackageURL string `json:"purl"`
		} `json:"components"`
	}
	noError(t, json.Unmarshal(content, &list))
	found := make(map[string]string)
	for _, component := range list.Components {
		found[component.Name] = component.PackageURL
	}
	if list.BOMFormat != "CycloneDX" || found["std"] != "pkg:golang/std@"+strings.TrimPrefix(toolchain, "go") {
		t.Errorf("format %q, components %v", list.BOMFormat, found)
	}
}

func TestSeveralPlatformsAreOneImageInARegistry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/examprep"
	archive(t, module(t), "-platform", "linux/amd64,linux/arm64", "-push", repository)
	tag, err := name.NewTag(repository + ":1.2.3")
	noError(t, err)
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := remote.Image(tag, remote.WithContext(context.WithoutCancel(t.Context())),
			remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
		if err != nil {
			t.Fatalf("%s: %v", architecture, err)
		}
		config, err := image.ConfigFile()
		noError(t, err)
		if config.Architecture != architecture {
			t.Errorf("asked for %s, got %s", architecture, config.Architecture)
		}
	}
}

func TestTheFilesForAnEngineAreThoseOfTheImage(t *testing.T) {
	source, folder := module(t), filepath.Join(t.TempDir(), "root")
	noError(t, run(t.Context(), []string{"-source", source, "-version", "1.2.3", "-rootfs", folder}, io.Discard))
	image, err := tarball.ImageFromPath(archive(t, source), nil)
	noError(t, err)
	for path, f := range filesOf(t, image) {
		if strings.HasSuffix(path, "/") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil || !bytes.Equal(content, f.content) {
			t.Errorf("%s differs: %v", path, err)
		}
	}
}

func TestAMistakeIsNamed(t *testing.T) {
	source := module(t)
	for _, c := range []struct{ args, want string }{
		{"-platform windows/amd64", "-platform"},
		{"-ref examprep:1:2", "-ref"},
		{"-push UPPER/Case", "-push"},
		{"-rootfs x -platform linux/amd64,linux/arm64", "-rootfs"},
	} {
		args := append([]string{"-source", source, "-version", "1", "-o", filepath.Join(t.TempDir(), "x.tar")}, strings.Fields(c.args)...)
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.args, err)
		}
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
