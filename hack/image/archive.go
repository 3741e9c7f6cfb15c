package main

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// whole returns what the image's name stands for: one image, or an index of one for each platform.
func whole(images []built) mutate.Appendable {
	if len(images) == 1 {
		return images[0].image
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, one := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: one.image, Descriptor: v1.Descriptor{Platform: one.platform.DeepCopy()},
		})
	}
	return index
}

// writeArchive writes an OCI layout as one file, with the list that older Dockers look for.
func writeArchive(s settings, images []built) (err error) {
	reference, err := name.NewTag(s.reference)
	if err != nil {
		return fmt.Errorf("-ref: %w", err)
	}
	temporary, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	// A short name is Docker Hub's, which nodes know without the index.
	full := strings.TrimPrefix(reference.Name(), "index.")
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: whole(images), Descriptor: v1.Descriptor{Annotations: map[string]string{
			"io.containerd.image.name": full, "org.opencontainers.image.ref.name": reference.TagStr(),
		}},
	})
	if _, err := layout.Write(temporary, index); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	if err := writeDockerList(temporary, full, images[0].image); err != nil {
		return err
	}
	f, err := os.Create(s.output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return pack(f, temporary, s)
}

// writeDockerList names the first platform's parts in the form of docker save.
func writeDockerList(folder, reference string, image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	blob := func(d v1.Descriptor) string { return "blobs/" + d.Digest.Algorithm + "/" + d.Digest.Hex }
	entry := struct {
		Config   string   `json:"Config"`
		RepoTags []string `json:"RepoTags"`
		Layers   []string `json:"Layers"`
	}{Config: blob(manifest.Config), RepoTags: []string{reference}}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(layer))
	}
	text, err := json.Marshal([]any{entry})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "manifest.json"), text, 0o600)
}

// pack writes folder's files to w, in order, each with the image's time.
func pack(w io.Writer, folder string, s settings) error {
	buffered := bufio.NewWriterSize(w, 1<<20)
	archive := tar.NewWriter(buffered)
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return addFile(archive, tar.Header{Name: filepath.ToSlash(inside), Mode: 0o644, ModTime: s.created}, content)
	})
	return errors.Join(err, archive.Close(), buffered.Flush())
}

// push sends the image to a registry, with the credentials that docker login and its like have left.
func push(ctx context.Context, s settings, images []built, stdout io.Writer) error {
	repository, err := name.NewRepository(s.push)
	if err != nil {
		return fmt.Errorf("-push: %w", err)
	}
	tag := repository.Tag(s.version)
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	what := whole(images)
	switch what := what.(type) {
	case v1.Image:
		err = remote.Write(tag, what, options...)
	case v1.ImageIndex:
		err = remote.WriteIndex(tag, what, options...)
	}
	if err != nil {
		return fmt.Errorf("push %s: %w", tag, err)
	}
	digest, err := what.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s@%s\n", tag, digest)
	return err
}
