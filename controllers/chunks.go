package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
)

// liveChunks reads chunks from ConfigMaps, past the cache, for the length of one reconcile. Chunks in a row of the same
// ConfigMap cost one read; only the last one is held.
type liveChunks struct {
	live client.Reader
	last *corev1.ConfigMap
	// versions are the ConfigMaps that were read, as they were, by name.
	versions map[string]version
	// mixed is true if one of them changed between two reads.
	mixed bool
	// unlabelled are the names of the ConfigMaps whose changes are not noticed because they lack the label, sorted.
	unlabelled []string
}

var _ assemble.ChunkReader = (*liveChunks)(nil)

// ReadChunk implements assemble.ChunkReader.
func (c *liveChunks) ReadChunk(ctx context.Context, namespace, name, key string) ([]byte, error) {
	missing := &assemble.ChunkMissingError{Namespace: namespace, Name: name, Key: key}
	if c.last == nil || c.last.Namespace != namespace || c.last.Name != name {
		read := &corev1.ConfigMap{}
		err := c.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, read)
		if apierrors.IsNotFound(err) {
			return nil, missing
		}
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
		}
		c.last = read
		c.note(read)
	}
	raw, ok := assemble.ChunkFrom(c.last, key)
	if !ok {
		missing.KeyMissing = true
		return nil, missing
	}
	return raw, nil
}

func (c *liveChunks) note(read *corev1.ConfigMap) {
	now := version{read.UID, read.ResourceVersion}
	if before, known := c.versions[read.Name]; known && before != now {
		c.mixed = true
	}
	if c.versions == nil {
		c.versions = map[string]version{}
	}
	c.versions[read.Name] = now
	if read.Labels[v1alpha1.ContentLabel] == "true" {
		return
	}
	if i, known := slices.BinarySearch(c.unlabelled, read.Name); !known {
		c.unlabelled = slices.Insert(c.unlabelled, i, read.Name)
	}
}
