package content

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/syntax"
)

// edits are seals to write into files. They replace whole entries in the text, because a syntax tree that is written back would lose the
// author's layout.
type edits struct {
	files []string
	seals map[string][]sealEdit
}

// sealEdit is the new verification of a paper.
type sealEdit struct {
	content *Content
	paper   int
	seal    v1alpha1.Verification
}

func (e sealEdit) path() syntax.Path { return syntax.Path{}.Field("spec").Field("papers").At(e.paper) }

func (e *edits) add(edit sealEdit) {
	if e.seals == nil {
		e.seals = make(map[string][]sealEdit)
	}
	file := edit.content.Position.File
	if _, known := e.seals[file]; !known {
		e.files = append(e.files, file)
	}
	e.seals[file] = append(e.seals[file], edit)
}

// write changes all files, after it has checked the new text of all.
func (e *edits) write(ctx context.Context) error {
	texts := make([][]byte, len(e.files))
	for i, file := range e.files {
		if file == Stdin {
			return errors.New("standard input cannot be written to: name the file")
		}
		text, err := os.ReadFile(file) //nolint:gosec // the file that the user named
		if err != nil {
			return fmt.Errorf("write seals: %w", err)
		}
		if texts[i], err = edited(ctx, file, text, e.seals[file]); err != nil {
			return err
		}
	}
	for i, file := range e.files {
		if err := replaceFile(file, texts[i]); err != nil {
			return fmt.Errorf("write seals: %w", err)
		}
	}
	return nil
}

// replaceFile replaces the text of a file in one step. The file keeps its permissions.
func replaceFile(file string, text []byte) error {
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(target), ".examprep-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone already after the rename
	_, err = temporary.Write(text)
	if err := errors.Join(err, temporary.Chmod(info.Mode().Perm()), temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), target)
}

// errNotEditable is returned for an entry whose end cannot be found in the text.
var errNotEditable = errors.New("cannot be edited in place: write it by hand")

// edited returns text with the seals. It returns an error rather than change anything else.
func edited(ctx context.Context, file string, text []byte, seals []sealEdit) ([]byte, error) {
	source := sourceText{text: text, lines: lineOffsets(text)}
	replacements := make([]replacement, 0, len(seals))
	for _, edit := range seals {
		change, err := source.replacement(edit)
		if err != nil {
			at := edit.path().Field("verification")
			return nil, &ProblemsError{Problems: []Problem{{
				Position: edit.content.doc.Position(at), Field: at.String(), Detail: err.Error(),
			}}}
		}
		replacements = append(replacements, change)
	}
	slices.SortFunc(replacements, func(a, b replacement) int { return cmp.Compare(a.from, b.from) })
	var out bytes.Buffer
	from := 0
	for _, change := range replacements {
		if change.from < from {
			return nil, fmt.Errorf("%s: two edits of the same text: %w", file, errNotEditable)
		}
		out.Write(text[from:change.from])
		out.WriteString(change.text)
		from = change.to
	}
	out.Write(text[from:])
	return out.Bytes(), checkEdited(ctx, file, out.Bytes(), seals)
}

// checkEdited loads the new text and compares its exams with the old ones.
func checkEdited(ctx context.Context, file string, text []byte, seals []sealEdit) error {
	again := newFiles()
	again.addFile(ctx, file, text)
	for _, edit := range seals {
		matches := func(content Content) bool {
			papers := content.Spec.Papers
			if edit.paper >= len(papers) || papers[edit.paper].Verification == nil {
				return false
			}
			seal := *papers[edit.paper].Verification
			seal.Signature = strings.TrimSpace(seal.Signature)
			return seal == edit.seal && reflect.DeepEqual(withoutSeals(content), withoutSeals(*edit.content))
		}
		if !slices.ContainsFunc(again.Contents, matches) {
			return fmt.Errorf("%s: the verification of %s cannot be edited in place, or the file has changed: write digest %s by hand",
				file, edit.path(), edit.seal.Digest)
		}
	}
	return nil
}

// withoutSeals copies a resource without the verification of its papers.
func withoutSeals(content Content) *v1alpha1.ExamContent {
	copied := content.DeepCopy()
	for i := range copied.Spec.Papers {
		copied.Spec.Papers[i].Verification = nil
	}
	return copied
}

// replacement is a text for the bytes from one offset to another.
type replacement struct {
	from, to int
	text     string
}

// sourceText is the text of a file with the offsets of its lines.
type sourceText struct {
	text  []byte
	lines []int
}

func lineOffsets(text []byte) []int {
	offsets := []int{0}
	for i, c := range text {
		if c == '\n' {
			offsets = append(offsets, i+1)
		}
	}
	return offsets
}

// offset returns the offset of a node. The parser does not count a byte order mark in the first line.
func (s sourceText) offset(node *yaml.Node) (int, error) {
	if node.Line < 1 || node.Line > len(s.lines) {
		return 0, errNotEditable
	}
	at := s.lines[node.Line-1]
	for range node.Column - 1 {
		_, size := utf8.DecodeRune(s.text[at:])
		at += size
	}
	if at > len(s.text) {
		return 0, errNotEditable
	}
	return at, nil
}

// replacement replaces the verification of a paper, or inserts it: before the questions of a block, or as the first entry in braces.
func (s sourceText) replacement(edit sealEdit) (replacement, error) {
	paper := syntax.ValueAt(edit.content.doc.Root, edit.path())
	if paper == nil || paper.Kind != yaml.MappingNode || len(paper.Content) == 0 {
		return replacement{}, errNotEditable
	}
	inBraces := paper.Style&yaml.FlowStyle != 0
	for i := 0; i < len(paper.Content); i += 2 {
		if paper.Content[i].Value == "verification" {
			return s.replaceEntry(paper.Content[i], paper.Content[i+1], edit.seal, inBraces)
		}
	}
	first, err := s.offset(paper.Content[0])
	if err != nil {
		return replacement{}, err
	}
	if inBraces {
		return replacement{from: first, to: first, text: quoted("verification") + ": " + inline(edit.seal) + ", "}, nil
	}
	line, found := s.lineForEntry(paper)
	if !found {
		return replacement{}, errNotEditable
	}
	column := paper.Content[0].Column
	end := s.lineEnd(paper.Content[0].Line - 1)
	entry := strings.Repeat(" ", column-1) + block(edit.seal, column-1, end)
	if line >= len(s.lines) { // the last line has no end
		return replacement{from: len(s.text), to: len(s.text), text: end + entry}, nil
	}
	return replacement{from: s.lines[line], to: s.lines[line], text: entry + end}, nil
}

// replaceEntry replaces an entry with its comments.
func (s sourceText) replaceEntry(key, value *yaml.Node, seal v1alpha1.Verification, inBraces bool) (replacement, error) {
	from, err := s.offset(key)
	if err != nil || value.Kind != yaml.MappingNode {
		return replacement{}, errNotEditable
	}
	if value.Style&yaml.FlowStyle != 0 {
		begin, err := s.offset(value)
		if err != nil {
			return replacement{}, err
		}
		size := braces(s.text[begin:])
		if size == 0 {
			return replacement{}, errNotEditable
		}
		if inBraces || value.Line == key.Line {
			return replacement{from: begin, to: begin + size, text: inline(seal)}, nil
		}
		return replacement{from: from, to: begin + size, text: block(seal, key.Column-1, s.lineEnd(key.Line-1))}, nil
	}
	last := key.Line
	for line := key.Line; line < len(s.lines); line++ {
		text := bytes.TrimRight(s.textOfLine(line), "\r\n")
		inner := bytes.TrimLeft(text, " ")
		if len(inner) > 0 && len(text)-len(inner) < key.Column {
			break
		}
		if len(inner) > 0 {
			last = line + 1
		}
	}
	to := s.lines[last-1] + len(bytes.TrimRight(s.textOfLine(last-1), "\r\n"))
	return replacement{from: from, to: to, text: block(seal, key.Column-1, s.lineEnd(key.Line-1))}, nil
}

// braces returns the size of the flow mapping that begins a text; 0 if it has no end.
func braces(text []byte) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// block returns an entry of a block mapping that is indented by indent blanks, without its first indent and its last line end.
func block(seal v1alpha1.Verification, indent int, end string) string {
	inner := end + strings.Repeat(" ", indent+2)
	text := "verification:" + inner + "by: " + quoted(seal.By) + inner + "at: " + quoted(seal.At) + inner + "digest: " + quoted(seal.Digest)
	switch lines := strings.Split(seal.Signature, "\n"); {
	case seal.Signature == "":
		return text
	case len(lines) == 1:
		return text + inner + "signature: " + quoted(seal.Signature)
	default:
		return text + inner + "signature: |" + inner + "  " + strings.Join(lines, inner+"  ")
	}
}

// inline returns a seal in braces, as JSON is.
func inline(seal v1alpha1.Verification) string {
	text := fmt.Sprintf(`{"by": %s, "at": %s, "digest": %s`, quoted(seal.By), quoted(seal.At), quoted(seal.Digest))
	if seal.Signature != "" {
		text += `, "signature": ` + quoted(seal.Signature)
	}
	return text + "}"
}

// lineForEntry returns the line, counted from 0, before which a new entry of a block mapping is inserted.
func (s sourceText) lineForEntry(mapping *yaml.Node) (int, bool) {
	for i := 2; i < len(mapping.Content); i += 2 {
		if key := mapping.Content[i]; key.Value == "questions" || key.Value == "questionsFrom" {
			line := key.Line - 1
			for line > 0 && bytes.HasPrefix(bytes.TrimSpace(s.textOfLine(line-1)), []byte("#")) {
				line-- // keep a comment above the questions there
			}
			return line, true
		}
	}
	for i := len(mapping.Content) - 2; i >= 0; i -= 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		oneLine := value.Kind == yaml.ScalarNode && value.Line == key.Line &&
			value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0
		next := i+2 >= len(mapping.Content) || mapping.Content[i+2].Line > value.Line
		if oneLine && next {
			return value.Line, true
		}
	}
	return 0, false
}

func (s sourceText) textOfLine(line int) []byte {
	if line+1 < len(s.lines) {
		return s.text[s.lines[line]:s.lines[line+1]]
	}
	return s.text[s.lines[line]:]
}

// lineEnd returns the end of a line, or that of the first line if it is the last one.
func (s sourceText) lineEnd(line int) string {
	if line+1 >= len(s.lines) {
		line = 0
	}
	if bytes.HasSuffix(s.textOfLine(line), []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func quoted(value string) string {
	text, err := syntax.CompactJSON(value)
	if err != nil {
		return `""` // not possible: a string always marshals
	}
	return string(text)
}
