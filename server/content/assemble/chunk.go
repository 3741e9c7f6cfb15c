package assemble

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"examprep.dev/server/content/syntax"
)

// Limits of decompressed chunks, in bytes.
const (
	// MaxChunkBytes is the limit of one chunk. A ConfigMap holds at most 1 MiB, which gzip can expand to a gigabyte.
	MaxChunkBytes = 16 << 20
	// MaxExamBytes is the limit of all chunks of an exam together, with aliases expanded. A chunk of short values counts as the memory that
	// they need at least: valueBytes each, and questionBytes for each question.
	MaxExamBytes  = 64 << 20
	valueBytes    = 32
	questionBytes = 256
)

// ChunkReader reads chunks of questions from ConfigMaps, in files or in a cluster.
type ChunkReader interface {
	// ReadChunk returns the bytes of a key of a ConfigMap's data or binaryData, as they are stored. The caller must not change them. The
	// error is a *ChunkMissingError if the ConfigMap or key does not exist; other errors mean that the source cannot be read.
	ReadChunk(ctx context.Context, namespace, configMap, key string) ([]byte, error)
}

// ChunkFrom returns the bytes of a key of a ConfigMap, from data or binaryData, and reports whether the key exists.
func ChunkFrom(configMap *corev1.ConfigMap, key string) ([]byte, bool) {
	if text, ok := configMap.Data[key]; ok {
		return []byte(text), true
	}
	raw, ok := configMap.BinaryData[key]
	return raw, ok
}

// ChunkDigest returns the value for questionsFrom[].digest: "sha256:" and the SHA-256 of the stored bytes.
func ChunkDigest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ChunkError is a problem in a chunk.
type ChunkError struct {
	// Line counts from 1 in the decompressed text; 0 means unknown.
	Line int
	// Field is a path from the list of questions, like `[14].answer.choice`. It is empty if the text cannot be read.
	Field  string
	Detail string
}

func (e *ChunkError) Error() string {
	var b strings.Builder
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Detail)
	return b.String()
}

var gzipMagic = []byte{0x1f, 0x8b}

// ChunkText decompresses raw if it is gzip, up to limit bytes, and checks that it is UTF-8.
func ChunkText(raw []byte, limit int) ([]byte, error) {
	text, _, err := chunkText(raw, limit)
	return text, err
}

// chunkText also returns how many bytes it has read, with an error too.
func chunkText(raw []byte, limit int) (text []byte, read int, err error) {
	text = raw
	if bytes.HasPrefix(raw, gzipMagic) {
		reader, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, len(raw), &ChunkError{Detail: "broken gzip: " + err.Error()}
		}
		if text, err = io.ReadAll(io.LimitReader(reader, int64(limit)+1)); err != nil {
			return nil, max(len(raw), len(text)), &ChunkError{Detail: "broken gzip: " + err.Error()}
		}
	}
	read = max(len(raw), len(text))
	if len(text) > limit {
		return nil, read, &ChunkError{Detail: fmt.Sprintf("holds more than %d bytes of text: split it", limit)}
	}
	if !utf8.Valid(text) {
		return nil, read, &ChunkError{Line: syntax.LineOfInvalidUTF8(text), Detail: "is not valid UTF-8"}
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), read, nil
}
