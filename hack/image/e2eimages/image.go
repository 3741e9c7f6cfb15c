package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// image is what goes into an image of one layer.
type image struct {
	entrypoint, command, env []string
	// files by their absolute path in the image.
	files map[string]source
}

// source is where a file comes from: a path on this machine, or the text itself.
type source struct {
	path string
	text []byte
	mode int64
}

func newImage() *image { return &image{files: map[string]source{}} }

func (i *image) text(path string, content []byte) { i.files[path] = source{text: content, mode: 0o644} }

// write makes the archive, which bears the image's name.
func (i *image) write(path, reference string) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	if err := i.writeLayer(&layer); err != nil {
		return err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	contents, err := tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return err
	}
	made, err := mutate.AppendLayers(empty.Image, contents)
	if err != nil {
		return err
	}
	if made, err = i.configure(made); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return tarball.WriteToFile(path, tag, made)
}

// configure says how the image is run.
func (i *image) configure(made v1.Image) (v1.Image, error) {
	config, err := made.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's settings: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user), Entrypoint: i.entrypoint, Cmd: i.command, Env: i.env,
	}
	return mutate.ConfigFile(made, config)
}

// writeLayer writes all files in the order of their paths, each after its folders.
func (i *image) writeLayer(to io.Writer) error {
	archive := tar.NewWriter(to)
	made := map[string]bool{"": true}
	for _, path := range slices.Sorted(maps.Keys(i.files)) {
		if err := writeFolders(archive, made, strings.TrimPrefix(filepath.Dir(path), "/")); err != nil {
			return err
		}
		file := i.files[path]
		content := file.text
		if file.path != "" {
			var err error
			if content, err = os.ReadFile(file.path); err != nil {
				return err
			}
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: file.mode, Size: int64(len(content))}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("%s: %w", strconv.Quote(path), err)
		}
		if _, err := archive.Write(content); err != nil {
			return fmt.Errorf("%s: %w", strconv.Quote(path), err)
		}
	}
	return archive.Close()
}

func writeFolders(archive *tar.Writer, made map[string]bool, folder string) error {
	if made[folder] || folder == "." {
		return nil
	}
	if parent := filepath.Dir(folder); parent != "." {
		if err := writeFolders(archive, made, parent); err != nil {
			return err
		}
	}
	made[folder] = true
	return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755})
}
