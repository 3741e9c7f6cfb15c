package assemble

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/syntax"
)

// Limits of decompressed chunks, in bytes.
const (
	// MaxChunkBytes is the limit of one chunk. A ConfigMap holds at most 1 MiB, which gzip can expand to a gigabyte.
	MaxChunkBytes = 16 << 20
	// MaxExamBytes is the limit of all chunks of an exam together.
	MaxExamBytes = 64 << 20
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
	text := raw
	if bytes.HasPrefix(raw, gzipMagic) {
		reader, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, &ChunkError{Detail: "broken gzip: " + err.Error()}
		}
		if text, err = io.ReadAll(io.LimitReader(reader, int64(limit)+1)); err != nil {
			return nil, &ChunkError{Detail: "broken gzip: " + err.Error()}
		}
	}
	if len(text) > limit {
		return nil, &ChunkError{Detail: fmt.Sprintf("holds more than %d bytes of text: split it", limit)}
	}
	if !utf8.Valid(text) {
		return nil, &ChunkError{Line: syntax.LineOfInvalidUTF8(text), Detail: "is not valid UTF-8"}
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), nil
}

// DecodeChunk decodes a valid chunk quickly; InspectChunk finds the problems of an invalid one. Both read the same forms: JSON Lines if
// the first character is {, a JSON array if it is [, otherwise a YAML list.
func DecodeChunk(text []byte) ([]v1alpha1.Question, error) {
	if hasLongNumber(text) {
		if _, problems := InspectChunk(text); len(problems) > 0 {
			return nil, &problems[0]
		}
	}
	questions, err := decodeQuestions(text)
	if err != nil {
		if _, problems := InspectChunk(text); len(problems) > 0 {
			return nil, &problems[0]
		}
		return nil, &ChunkError{Detail: err.Error()}
	}
	if len(questions) == 0 {
		return nil, &ChunkError{Detail: "holds no question"}
	}
	return questions, nil
}

func decodeQuestions(text []byte) ([]v1alpha1.Question, error) {
	var questions []v1alpha1.Question
	switch syntax.FirstByte(text) {
	case '{':
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			var question v1alpha1.Question
			if err := unmarshalStrict(line, &question); err != nil {
				return nil, err
			}
			questions = append(questions, question)
		}
		return questions, nil
	case '[':
	default: // inspectList finds problems that decoders of YAML ignore
		doc, problems := inspectList(text)
		if len(problems) > 0 {
			return nil, &problems[0]
		}
		text = doc.JSON
	}
	err := unmarshalStrict(text, &questions)
	return questions, err
}

// exactDigits is the number of digits up to which a float64 holds every whole number exactly.
const exactDigits = 15

// hasLongNumber reports whether text can hold a number that a float64 cannot.
func hasLongNumber(text []byte) bool {
	digits := 0
	for _, c := range text {
		if '0' <= c && c <= '9' {
			if digits++; digits > exactDigits {
				return true
			}
		} else {
			digits = 0
		}
	}
	return false
}

// unmarshalStrict decodes like the API server: names are case-sensitive, unknown and duplicate names are errors. But a null is read as an
// absent field, which the API server refuses.
func unmarshalStrict(text []byte, target any) error {
	strictErrors, err := sigsjson.UnmarshalStrict(text, target)
	return errors.Join(append(strictErrors, err)...)
}

// InspectChunk returns the syntax trees of a chunk's questions, with the lines of the chunk's text, and all problems of its form.
func InspectChunk(text []byte) (questions []*yaml.Node, problems []ChunkError) {
	if syntax.FirstByte(text) == '{' {
		return inspectLines(text)
	}
	doc, problems := inspectList(text)
	if doc == nil {
		return nil, problems
	}
	return doc.Root.Content, problems
}

// inspectList reads a JSON array or a YAML list. The document is nil if the text is neither.
func inspectList(text []byte) (doc *syntax.Document, problems []ChunkError) {
	var err error
	if syntax.FirstByte(text) == '[' {
		doc, err = syntax.ParseJSON(text)
	} else {
		doc, err = syntax.ParseYAML(text)
	}
	switch {
	case err != nil:
		return nil, []ChunkError{chunkSyntax(err, 0)}
	case doc == nil:
		return nil, []ChunkError{{Line: 1, Detail: "holds no question"}}
	case doc.Root.Kind != yaml.SequenceNode:
		return nil, []ChunkError{{Line: doc.Root.Line, Detail: "must be a list of questions"}}
	}
	check := syntax.Strict{Root: doc.Root, Report: func(p syntax.Path, at *yaml.Node, detail string) {
		problems = append(problems, ChunkError{Line: at.Line, Field: p.String(), Detail: detail})
	}}
	check.All(doc.Value, reflect.TypeFor[[]v1alpha1.Question]())
	return doc, problems
}

func inspectLines(text []byte) (questions []*yaml.Node, problems []ChunkError) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		index := len(questions)
		root, err := syntax.ParseNode(line)
		if err != nil {
			problems = append(problems, chunkSyntax(err, number-1))
			continue
		}
		syntax.Shift(root, number-1)
		doc, err := syntax.NewDocument(root, line)
		if err != nil {
			problems = append(problems, chunkSyntax(err, number-1))
			continue
		}
		questions = append(questions, root)
		check := syntax.Strict{Root: root, Report: func(p syntax.Path, at *yaml.Node, detail string) {
			field := syntax.Path{}.At(index).Join(p)
			problems = append(problems, ChunkError{Line: at.Line, Field: field.String(), Detail: detail})
		}}
		check.Object(doc.Value, &v1alpha1.Question{})
	}
	return questions, problems
}

func chunkSyntax(err error, linesBefore int) ChunkError {
	if unreadable, ok := errors.AsType[*syntax.Error](err); ok {
		return ChunkError{Line: unreadable.Line + linesBefore, Detail: unreadable.Err.Error()}
	}
	return ChunkError{Detail: err.Error()}
}
