package manifest

import (
	"context"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"examprep.dev/api/v1alpha1"
)

// chunkView is a chunk as it stands in a file: what is wrong with it, and where its questions are.
type chunkView struct {
	// questions are trees with the chunk's own lines.
	questions []*yaml.Node
	problems  []ChunkError
	// field is the chunk's path in the ConfigMap, like `data[questions.jsonl]`.
	field string

	name string
	key  string
	file string
	// scalar holds the chunk in the file; literal is true where each of its lines is one of the chunk's.
	scalar  *yaml.Node
	literal bool
}

// view reads a chunk for its places; the zero value stands for one that is not there.
func (b *Bundle) view(ctx context.Context, namespace string, ref v1alpha1.ConfigMapKeyRef) chunkView {
	found := b.configMaps[objectName{namespace: orDefault(namespace), name: ref.Name}]
	raw, err := b.ReadChunk(ctx, namespace, ref.Name, ref.Key)
	if found == nil || err != nil {
		return chunkView{}
	}
	v := chunkView{name: ref.Name, key: ref.Key, file: found.doc.file}
	p := path{}.field("data").field(ref.Key)
	if _, inData := found.Data[ref.Key]; !inData {
		p = path{}.field("binaryData").field(ref.Key)
	}
	v.field = p.String()
	v.scalar = valueAt(found.doc.root, p)
	if v.scalar != nil && v.scalar.Kind == yaml.AliasNode {
		v.scalar = v.scalar.Alias
	}
	v.literal = v.scalar != nil && v.scalar.Style&yaml.LiteralStyle != 0 && p[0].key == "data"
	text, err := chunkText(raw, MaxChunkBytes)
	if invalid, ok := errors.AsType[*ChunkError](err); ok {
		v.problems = []ChunkError{*invalid}
		return v
	}
	v.questions, v.problems = inspectChunk(text)
	if len(v.questions) == 0 && len(v.problems) == 0 {
		v.problems = []ChunkError{{Detail: "holds no question"}}
	}
	return v
}

// position is where a line of the chunk stands in the file; of the whole chunk where lines do not correspond.
func (v chunkView) position(line int) Position {
	switch {
	case v.scalar == nil:
		return Position{File: v.file}
	case v.literal && line > 0:
		return Position{File: v.file, Line: v.scalar.Line + line}
	default:
		return Position{File: v.file, Line: v.scalar.Line, Column: v.scalar.Column}
	}
}

// in names the chunk and, where the position cannot tell it, the line in it.
func (v chunkView) in(line int) string {
	if line > 0 {
		return fmt.Sprintf("ConfigMap %s, key %s, line %d: ", v.name, v.key, line)
	}
	return fmt.Sprintf("ConfigMap %s, key %s: ", v.name, v.key)
}
