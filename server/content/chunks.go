package content

import (
	"context"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/syntax"
)

// chunkPlace is the position of a chunk in a file.
type chunkPlace struct {
	name, key string
	// field is the path of the chunk in its ConfigMap, like `data[questions.jsonl]`.
	field string
	file  string
	// scalar holds the chunk. literal reports whether each line of it is a line of the chunk.
	scalar  *yaml.Node
	literal bool
	// text is the decompressed text; nil if it cannot be read.
	text []byte
}

// place returns the position of a chunk. It reports false if there is no such chunk.
func (b *Files) place(ctx context.Context, namespace, name, key string) (chunkPlace, bool) {
	found := b.configMaps[objectName{namespace: orDefault(namespace), name: name}]
	raw, err := b.ReadChunk(ctx, namespace, name, key)
	if found == nil || err != nil {
		return chunkPlace{}, false
	}
	at := syntax.Path{}.Field("data").Field(key)
	_, inData := found.Data[key]
	if !inData {
		at = syntax.Path{}.Field("binaryData").Field(key)
	}
	c := chunkPlace{name: name, key: key, field: at.String(), file: found.doc.File, scalar: syntax.ValueAt(found.doc.Root, at)}
	if c.scalar != nil && c.scalar.Kind == yaml.AliasNode {
		c.scalar = c.scalar.Alias
	}
	c.literal = c.scalar != nil && c.scalar.Style&yaml.LiteralStyle != 0 && inData
	c.text, _ = assemble.ChunkText(raw, assemble.MaxChunkBytes) // Lint reports the error of assemble.Read
	return c, true
}

// position returns the position in the file of a line of the chunk, or of the whole chunk if their lines do not correspond.
func (c chunkPlace) position(line int) syntax.Position {
	switch {
	case c.scalar == nil:
		return syntax.Position{File: c.file}
	case c.literal && line > 0:
		return syntax.Position{File: c.file, Line: c.scalar.Line + line}
	default:
		return syntax.Position{File: c.file, Line: c.scalar.Line, Column: c.scalar.Column}
	}
}

// problem returns a problem at a line of the chunk and a path in it.
func (c chunkPlace) problem(line int, field, detail string) Problem {
	prefix := fmt.Sprintf("ConfigMap %s, key %s: ", c.name, c.key)
	if line > 0 {
		prefix = fmt.Sprintf("ConfigMap %s, key %s, line %d: ", c.name, c.key, line)
	}
	return Problem{Position: c.position(line), Field: c.field + field, Detail: prefix + detail}
}

// refused reports a reference that assemble.Read could not use: each problem of the chunk, or else the reference.
func (l *linter) refused(ctx context.Context, content *Content, err error) {
	if missing, ok := errors.AsType[*assemble.ChunkMissingError](err); ok {
		unnamed := *missing
		unnamed.Field = ""
		l.report(content.doc.Position(syntax.ParsePath(missing.Field)), missing.Field, unnamed.Error())
		return
	}
	refused, ok := errors.AsType[*assemble.RefError](err)
	if !ok {
		l.report(content.Position, "", err.Error())
		return
	}
	at := syntax.ParsePath(refused.Field)
	found, chunked := l.chunk(ctx, content, at)
	var problems []assemble.ChunkError
	if found.text != nil {
		_, problems = assemble.DecodeChunk(found.text)
	} else if unreadable, ok := errors.AsType[*assemble.ChunkError](refused.Err); ok && chunked {
		problems = []assemble.ChunkError{*unreadable}
	}
	for _, problem := range problems {
		l.problems = append(l.problems, found.problem(problem.Line, problem.Field, problem.Detail))
	}
	if digest, ok := errors.AsType[*assemble.ChunkDigestError](refused.Err); ok {
		at = at.Field("digest")
		l.report(content.doc.Position(at), at.String(), digest.Error())
	} else if len(problems) == 0 {
		l.report(content.doc.Position(at), refused.Field, refused.Detail)
	}
}

// chunk returns the position of the chunk that the reference at a path names.
func (l *linter) chunk(ctx context.Context, content *Content, at syntax.Path) (chunkPlace, bool) {
	ref := content.Spec.Papers[at[2].Index].QuestionsFrom[at[4].Index].ConfigMapKeyRef
	return l.place(ctx, content.Namespace, ref.Name, ref.Key)
}

// place is Files.place, which reads a chunk again only after another one: a small file can hold thousands that expand to 16 MiB each.
func (l *linter) place(ctx context.Context, namespace, name, key string) (chunkPlace, bool) {
	id := chunkName{objectName{namespace, name}, key}
	if l.last.text != nil && l.lastName == id {
		return l.last, true
	}
	found, ok := l.files.place(ctx, namespace, name, key)
	if ok {
		l.lastName, l.last = id, found
	}
	return found, ok
}
