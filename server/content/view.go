package content

import (
	"context"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/syntax"
)

// chunkView is a chunk in a file, with its problems and the positions of its questions.
type chunkView struct {
	// questions are syntax trees with the lines of the chunk.
	questions []*yaml.Node
	problems  []assemble.ChunkError
	// field is the chunk's path in the ConfigMap, like `data[questions.jsonl]`.
	field string

	name string
	key  string
	file string
	// scalar holds the chunk in the file. literal reports whether each line of it is a line of the chunk.
	scalar  *yaml.Node
	literal bool
}

// view reads a chunk with its positions. It returns the zero value if there is no such chunk.
func (b *Files) view(ctx context.Context, namespace string, ref v1alpha1.ConfigMapKeyRef) chunkView {
	found := b.configMaps[objectName{namespace: orDefault(namespace), name: ref.Name}]
	raw, err := b.ReadChunk(ctx, namespace, ref.Name, ref.Key)
	if found == nil || err != nil {
		return chunkView{}
	}
	v := chunkView{name: ref.Name, key: ref.Key, file: found.doc.File}
	p := syntax.Path{}.Field("data").Field(ref.Key)
	if _, inData := found.Data[ref.Key]; !inData {
		p = syntax.Path{}.Field("binaryData").Field(ref.Key)
	}
	v.field = p.String()
	v.scalar = syntax.ValueAt(found.doc.Root, p)
	if v.scalar != nil && v.scalar.Kind == yaml.AliasNode {
		v.scalar = v.scalar.Alias
	}
	v.literal = v.scalar != nil && v.scalar.Style&yaml.LiteralStyle != 0 && p[0].Key == "data"
	text, err := assemble.ChunkText(raw, assemble.MaxChunkBytes)
	if invalid, ok := errors.AsType[*assemble.ChunkError](err); ok {
		v.problems = []assemble.ChunkError{*invalid}
		return v
	}
	v.questions, v.problems = assemble.InspectChunk(text)
	if len(v.questions) == 0 && len(v.problems) == 0 {
		v.problems = []assemble.ChunkError{{Detail: "holds no question"}}
	}
	return v
}

// position returns the position in the file of a line of the chunk, or of the whole chunk if their lines do not correspond.
func (v chunkView) position(line int) syntax.Position {
	switch {
	case v.scalar == nil:
		return syntax.Position{File: v.file}
	case v.literal && line > 0:
		return syntax.Position{File: v.file, Line: v.scalar.Line + line}
	default:
		return syntax.Position{File: v.file, Line: v.scalar.Line, Column: v.scalar.Column}
	}
}

// in names the chunk and the line in it.
func (v chunkView) in(line int) string {
	if line > 0 {
		return fmt.Sprintf("ConfigMap %s, key %s, line %d: ", v.name, v.key, line)
	}
	return fmt.Sprintf("ConfigMap %s, key %s: ", v.name, v.key)
}
