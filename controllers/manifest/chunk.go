package manifest

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
)

// Bounds on what chunks may expand to, in bytes.
const (
	// MaxChunkBytes is one chunk's text. A ConfigMap holds 1 MiB at most; gzip could make a gigabyte of it.
	MaxChunkBytes = 16 << 20
	// MaxExamBytes is the text of all chunks of one exam together.
	MaxExamBytes = 64 << 20
)

// ChunkReader reads chunks of questions. ConfigMaps are its usual source, files or a cluster.
type ChunkReader interface {
	// ReadChunk returns the bytes stored under key in a ConfigMap's data or binaryData, as they are (compressed or
	// not); the caller does not change them. It fails with *ChunkMissingError when there is no such ConfigMap or key;
	// other errors mean that the source could not be asked.
	ReadChunk(ctx context.Context, namespace, configMap, key string) ([]byte, error)
}

// ChunkFrom returns the bytes under key in a ConfigMap, from data or binaryData, and whether they are there.
func ChunkFrom(configMap *corev1.ConfigMap, key string) ([]byte, bool) {
	if text, ok := configMap.Data[key]; ok {
		return []byte(text), true
	}
	raw, ok := configMap.BinaryData[key]
	return raw, ok
}

// ChunkDigest is the digest that questionsFrom[].digest holds: "sha256:" and the SHA-256 of the bytes as stored.
func ChunkDigest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ChunkError says what is wrong inside a chunk. Its text form is for a person.
type ChunkError struct {
	// Line counts from 1 in the decompressed text; 0 when unknown.
	Line int
	// Field is a path from the list of questions, like `[14].answer.choice`; empty when the text cannot be read.
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

// chunkText decompresses raw if need be, up to limit bytes, and makes sure that it is text.
func chunkText(raw []byte, limit int) ([]byte, error) {
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
		return nil, &ChunkError{Line: lineOfInvalidUTF8(text), Detail: "is not valid UTF-8"}
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), nil
}

func lineOfInvalidUTF8(text []byte) int {
	line := 1
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		text = text[size:]
	}
	return line
}

// decodeChunkText is the quick way through good chunks; inspectChunk finds what is wrong with a bad one. Both read the same forms: JSON
// Lines if the first character is {, a JSON array if it is [, otherwise a YAML list.
func decodeChunkText(text []byte) ([]v1alpha1.Question, error) {
	if hasLongNumber(text) {
		if _, problems := inspectChunk(text); len(problems) > 0 {
			return nil, &problems[0]
		}
	}
	questions, err := decodeQuestions(text)
	if err != nil {
		if _, problems := inspectChunk(text); len(problems) > 0 {
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
	switch firstByte(text) {
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
	default: // decoders of YAML pass over much that inspectList finds
		doc, problems := inspectList(text)
		if len(problems) > 0 {
			return nil, &problems[0]
		}
		text = doc.json
	}
	err := unmarshalStrict(text, &questions)
	return questions, err
}

// exactDigits is how many digits a whole number can have and surely survive as a float64.
const exactDigits = 15

// hasLongNumber reports whether text may hold a number that a float64 cannot.
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

// unmarshalStrict decodes as the API server does: names are case-sensitive, unknown and repeated ones are errors. A
// null, which the API server refuses, Go takes for an absent field; so does this.
func unmarshalStrict(text []byte, target any) error {
	strictErrors, err := sigsjson.UnmarshalStrict(text, target)
	return errors.Join(append(strictErrors, err)...)
}

func firstByte(text []byte) byte {
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) > 0 {
		return trimmed[0]
	}
	return 0
}

// inspectChunk finds everything that is wrong with a chunk's form, and where its questions stand: trees with the lines
// of the chunk's text, as far as it could be read.
func inspectChunk(text []byte) (questions []*yaml.Node, problems []ChunkError) {
	if firstByte(text) == '{' {
		return inspectLines(text)
	}
	doc, problems := inspectList(text)
	if doc == nil {
		return nil, problems
	}
	return doc.root.Content, problems
}

// inspectList reads a JSON array or a YAML list. The document is nil if there is none.
func inspectList(text []byte) (doc *document, problems []ChunkError) {
	var err error
	if firstByte(text) == '[' {
		doc, err = parseJSON(text)
	} else {
		doc, err = parseYAML(text)
	}
	switch {
	case err != nil:
		return nil, []ChunkError{chunkSyntax(err, 0)}
	case doc == nil:
		return nil, []ChunkError{{Line: 1, Detail: "holds no question"}}
	case doc.root.Kind != yaml.SequenceNode:
		return nil, []ChunkError{{Line: doc.root.Line, Detail: "must be a list of questions"}}
	}
	check := strict{root: doc.root, report: func(p path, at *yaml.Node, detail string) {
		problems = append(problems, ChunkError{Line: at.Line, Field: p.String(), Detail: detail})
	}}
	check.all(doc.value, reflect.TypeFor[[]v1alpha1.Question]())
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
		root, err := jsonNode(line)
		if err != nil {
			problems = append(problems, chunkSyntax(err, number-1))
			continue
		}
		shift(root, number-1)
		doc, err := newDocument(root, line)
		if err != nil {
			problems = append(problems, chunkSyntax(err, number-1))
			continue
		}
		questions = append(questions, root)
		check := strict{root: root, report: func(p path, at *yaml.Node, detail string) {
			field := path{}.at(index).join(p)
			problems = append(problems, ChunkError{Line: at.Line, Field: field.String(), Detail: detail})
		}}
		check.object(doc.value, &v1alpha1.Question{})
	}
	return questions, problems
}

func chunkSyntax(err error, linesBefore int) ChunkError {
	if syntax, ok := errors.AsType[*syntaxError](err); ok {
		return ChunkError{Line: syntax.Line + linesBefore, Detail: syntax.Err.Error()}
	}
	return ChunkError{Detail: err.Error()}
}
