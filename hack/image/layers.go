package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// built is the image of one platform.
type built struct {
	platform v1.Platform
	image    v1.Image
	// contents is the list of what is in it; size what it takes unpacked, in bytes, and digest the binary's.
	contents []byte
	size     int64
	digest   string
}

func buildAll(ctx context.Context, s settings) ([]built, error) {
	temporary, err := os.MkdirTemp("", "image")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	images := make([]built, 0, len(s.platforms))
	for _, platform := range s.platforms {
		binary, err := compile(ctx, s, platform, temporary)
		if err != nil {
			return nil, err
		}
		one, err := assemble(s, platform, binary)
		if err != nil {
			return nil, err
		}
		images = append(images, one)
	}
	return images, nil
}

// assemble makes an image of two layers: what changes seldom, and the binary.
func assemble(s settings, platform v1.Platform, binary string) (built, error) {
	b := built{platform: platform}
	var err error
	if b.digest, b.size, err = digestOf(binary); err != nil {
		return b, err
	}
	if b.contents, err = listContents(s, platform, binary, b.digest); err != nil {
		return b, err
	}
	certificates := roots()
	b.size += int64(len(certificates.content))
	base, err := layerOf(s.created, append(accounts(), certificates))
	if err != nil {
		return b, err
	}
	program, err := layerOf(s.created, []file{{path: binaryPath, mode: 0o755, source: binary}})
	if err != nil {
		return b, err
	}
	b.image, err = imageOf(s, platform, base, program)
	return b, err
}

func imageOf(s settings, platform v1.Platform, layers ...v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for i, layer := range layers {
		var err error
		history := v1.History{CreatedBy: "hack/image", Created: v1.Time{Time: s.created}}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history, MediaType: types.OCILayer}); err != nil {
			return nil, fmt.Errorf("add layer %d: %w", i, err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: s.created}
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Config = v1.Config{
		User: user, Entrypoint: []string{"/" + binaryPath}, WorkingDir: "/", Labels: labels(s),
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}, "9090/tcp": {}},
	}
	return mutate.ConfigFile(image, config)
}

// labels are those that the Dockerfile sets as well.
func labels(s settings) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       "examprep",
		prefix + "description": "Exam platform: real past papers, timed mock exams, signed webhooks",
		prefix + "url":         "https://examprep.dev",
		prefix + "licenses":    "Apache-2.0",
		prefix + "version":     s.version,
		prefix + "revision":    s.revision,
		prefix + "created":     s.created.Format(time.RFC3339),
	}
}

// layerOf packs files with the folders above them, in order, all of the same time and root's.
func layerOf(at time.Time, files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, folder := range foldersOf(files) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: at}); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		content := f.content
		if f.source != "" {
			var err error
			if content, err = os.ReadFile(f.source); err != nil {
				return nil, err
			}
		}
		if err := addFile(w, tar.Header{Name: f.path, Mode: f.mode, ModTime: at}, content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

func addFile(w *tar.Writer, header tar.Header, content []byte) error {
	header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
	if err := w.WriteHeader(&header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func foldersOf(files []file) []string {
	folders := make(map[string]struct{})
	for _, f := range files {
		for folder := path.Dir(f.path); folder != "."; folder = path.Dir(folder) {
			folders[folder] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(folders))
}
