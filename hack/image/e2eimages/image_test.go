package main

import (
	"archive/tar"
	"errors"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestAnImageHoldsAProgramWithAllThatItLoads(t *testing.T) {
	i := newImage()
	i.entrypoint = []string{"/bin/sh", "/entrypoint.sh"}
	i.text("/entrypoint.sh", []byte("exit 0\n"))
	if err := i.programs(t.Context(), "/bin/sh"); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "new", "sh.tar")
	if err := i.write(archive, "localhost/test/sh:1"); err != nil {
		t.Fatal(err)
	}
	made, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "999:999" || !slices.Equal(config.Config.Entrypoint, i.entrypoint) || config.OS != "linux" {
		t.Errorf("config %+v of %s", config.Config, config.OS)
	}
	files := mutate.Extract(made)
	defer func() { _ = files.Close() }()
	seen := map[string]int64{}
	for headers := tar.NewReader(files); ; {
		header, err := headers.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if parent := path.Dir(path.Clean(header.Name)); parent != "." && seen[parent] == 0 {
			t.Errorf("%s comes before its folder", header.Name)
		}
		seen[path.Clean(header.Name)] = header.Mode
	}
	hasLoader := slices.ContainsFunc(slices.Collect(maps.Keys(seen)), func(name string) bool { return strings.Contains(name, "/ld-") || strings.Contains(name, "ld-musl") })
	if seen["bin/sh"] != 0o755 || seen["entrypoint.sh"] != 0o644 || !hasLoader {
		t.Errorf("files: %v", seen)
	}
}

func TestALibraryThatIsMissingIsNamed(t *testing.T) {
	if err := newImage().programs(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
}
