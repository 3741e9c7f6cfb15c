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

	"examprep.dev/server/content/syntax"
)

// sealEdits collects verification seals and writes them into files by changing the fewest characters: a syntax tree
// written back would lose the author's layout. It parses and compares the new text before it changes a file.
type sealEdits struct {
	files    []string
	seals    map[string][]newSeal
	problems []Problem
}

// newSeal is the new verification of a paper.
type newSeal struct {
	doc   *syntax.Document
	paper syntax.Path
	// by and at are "" where the file's own are kept.
	by, at, digest string
	// resign is true when signature takes the place of the file's own, "" for none.
	resign    bool
	signature string
}

func (e *sealEdits) add(content *Content, paper int, digest string, options DigestOptions) {
	seal := newSeal{
		doc: &content.doc, paper: syntax.Path{}.Field("spec").Field("papers").At(paper),
		by: options.By, at: options.At, digest: digest,
	}
	verification := content.Spec.Papers[paper].Verification
	for field, missing := range map[string]bool{
		"by": seal.by == "" && (verification == nil || verification.By == ""),
		"at": seal.at == "" && (verification == nil || verification.At == ""),
	} {
		if p := seal.paper.Field("verification").Field(field); missing {
			e.problems = append(e.problems, Problem{
				Position: content.doc.Position(p), Field: p.String(),
				Detail: "is required with a digest: write it, or give --" + field,
			})
		}
	}
	seal.resign = verification != nil && verification.Signature != ""
	e.put(content, seal)
}

func (e *sealEdits) put(content *Content, seal newSeal) {
	if e.seals == nil {
		e.seals = make(map[string][]newSeal)
	}
	file := content.Position.File
	if _, known := e.seals[file]; !known {
		e.files = append(e.files, file)
	}
	e.seals[file] = append(e.seals[file], seal)
}

// apply writes all files, after it made sure of all.
func (e *sealEdits) apply(ctx context.Context) error {
	if len(e.problems) > 0 {
		return AsError(SortProblems(e.problems))
	}
	texts := make([][]byte, len(e.files))
	for i, file := range e.files {
		if file == Stdin {
			return errors.New("standard input cannot be written to: name the file")
		}
		text, err := os.ReadFile(file) //nolint:gosec // the file that the user named
		if err != nil {
			return fmt.Errorf("write seals: %w", err)
		}
		if texts[i], err = spliceSeals(ctx, file, text, e.seals[file]); err != nil {
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

// replaceFile puts text in place of a file at once, keeping its permissions.
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

// splice replaces length bytes at offset.
type splice struct {
	offset, length int
	text           string
}

// spliceSeals returns text with the seals in it. It fails rather than change anything else.
func spliceSeals(ctx context.Context, file string, text []byte, seals []newSeal) ([]byte, error) {
	s := splicer{text: text, lines: lineOffsets(text)}
	for _, seal := range seals {
		if err := s.seal(seal); err != nil {
			at := seal.doc.Position(seal.paper.Field("verification"))
			return nil, &ProblemsError{Problems: []Problem{{
				Position: at, Field: seal.paper.Field("verification").String(), Detail: err.Error(),
			}}}
		}
	}
	slices.SortStableFunc(s.splices, func(a, b splice) int { return cmp.Compare(a.offset, b.offset) })
	var out bytes.Buffer
	from := 0
	for _, change := range s.splices {
		if change.offset < from {
			return nil, fmt.Errorf("%s: two edits meet in one place: %w", file, errNotEditable)
		}
		out.Write(text[from:change.offset])
		out.WriteString(change.text)
		from = change.offset + change.length
	}
	out.Write(text[from:])
	return out.Bytes(), verifySeals(ctx, file, out.Bytes(), seals)
}

// verifySeals reads the new text and compares it with the documents that it comes from.
func verifySeals(ctx context.Context, file string, text []byte, seals []newSeal) error {
	b := newFiles()
	b.addFile(ctx, file, text)
	for _, seal := range seals {
		matches := func(content Content) bool {
			entry, want := sealedPaper(content.doc.Value, seal.paper), sealedPaper(seal.doc.Value, seal.paper)
			verification, _ := entry["verification"].(map[string]any)
			if verification["digest"] != seal.digest || verification["by"] == "" || verification["at"] == "" {
				return false
			}
			if signature, there := verification["signature"].(string); seal.resign &&
				(there != (seal.signature != "") || strings.TrimSpace(signature) != seal.signature) {
				return false
			}
			return reflect.DeepEqual(withoutSeals(content.doc.Value), withoutSeals(seal.doc.Value)) && want != nil
		}
		if !slices.ContainsFunc(b.Contents, matches) {
			return fmt.Errorf("%s: the verification of %s cannot be edited in place, or the file changed meanwhile: write digest %s by hand",
				file, seal.paper, seal.digest)
		}
	}
	return nil
}

func sealedPaper(document any, p syntax.Path) map[string]any {
	value := document
	for _, s := range p {
		if s.Key != "" {
			mapping, _ := value.(map[string]any)
			value = mapping[s.Key]
		} else if items, _ := value.([]any); s.Index < len(items) {
			value = items[s.Index]
		}
	}
	paper, _ := value.(map[string]any)
	return paper
}

// withoutSeals copies a document, leaving out the papers' verification.
func withoutSeals(document any) any {
	top, _ := document.(map[string]any)
	spec, _ := top["spec"].(map[string]any)
	papers, _ := spec["papers"].([]any)
	copied := make([]any, len(papers))
	for i, paper := range papers {
		fields, _ := paper.(map[string]any)
		copied[i] = without(fields, "verification")
	}
	return []any{without(top, "spec"), without(spec, "papers"), copied}
}

func without(m map[string]any, key string) map[string]any {
	copied := make(map[string]any, len(m))
	for name, value := range m {
		if name != key {
			copied[name] = value
		}
	}
	return copied
}

// lineOffsets are where the lines of text begin.
func lineOffsets(text []byte) []int {
	offsets := []int{0}
	for i, c := range text {
		if c == '\n' {
			offsets = append(offsets, i+1)
		}
	}
	return offsets
}

type splicer struct {
	text    []byte
	lines   []int
	splices []splice
}

var errNotEditable = errors.New("cannot be edited in place: write it by hand")

// offset is where a node begins. A byte order mark in the first line is not counted by the parser.
func (s *splicer) offset(node *yaml.Node) (int, error) {
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

func (s *splicer) seal(seal newSeal) error {
	paper := syntax.ValueAt(seal.doc.Root, seal.paper)
	if paper == nil || paper.Kind != yaml.MappingNode || len(paper.Content) == 0 {
		return errNotEditable
	}
	wanted := []struct{ name, value string }{{"by", seal.by}, {"at", seal.at}, {"digest", seal.digest}}
	verification := syntax.ValueAt(paper, syntax.Path{}.Field("verification"))
	if verification == nil {
		var lines []string
		var inline []string
		for _, w := range wanted {
			lines = append(lines, "  "+w.name+": "+quoted(w.value))
			inline = append(inline, quoted(w.name)+": "+quoted(w.value))
		}
		return s.insert(paper, "verification:", lines, quoted("verification")+": {"+strings.Join(inline, ", ")+"}")
	}
	if verification.Kind != yaml.MappingNode || len(verification.Content) == 0 {
		return errNotEditable
	}
	for _, w := range wanted {
		if w.value == "" {
			continue
		}
		old := syntax.ValueAt(verification, syntax.Path{}.Field(w.name))
		var err error
		switch {
		case old == nil:
			err = s.insert(verification, w.name+": "+quoted(w.value), nil, quoted(w.name)+": "+quoted(w.value))
		case old.Value != w.value:
			err = s.replace(old, w.value)
		}
		if err != nil {
			return err
		}
	}
	if seal.resign {
		return s.resign(verification, seal.signature)
	}
	return nil
}

// replace replaces a scalar of one line.
func (s *splicer) replace(old *yaml.Node, value string) error {
	at, err := s.offset(old)
	if err != nil || old.Kind != yaml.ScalarNode {
		return errNotEditable
	}
	line, _, _ := bytes.Cut(s.text[at:], []byte("\n"))
	for _, written := range []string{quoted(old.Value), "'" + strings.ReplaceAll(old.Value, "'", "''") + "'", old.Value} {
		if written == "" || !bytes.HasPrefix(line, []byte(written)) {
			continue
		}
		text := quoted(value)
		if written == old.Value && isDigest(value) {
			text = value // as plain as it was
		}
		s.splices = append(s.splices, splice{offset: at, length: len(written), text: text})
		return nil
	}
	return errNotEditable
}

// insert adds an entry to a mapping: head and the lines under it in a block, inline within braces. In a block it comes
// before the questions, which are long; else behind the first entry that ends in its line.
func (s *splicer) insert(mapping *yaml.Node, head string, below []string, inline string) error {
	first := mapping.Content[0]
	at, err := s.offset(first)
	if err != nil {
		return err
	}
	if mapping.Style&yaml.FlowStyle != 0 {
		s.splices = append(s.splices, splice{offset: at, text: inline + ", "})
		return nil
	}
	line, found := s.lineForEntry(mapping)
	if !found {
		return errNotEditable
	}
	indent, end := strings.Repeat(" ", first.Column-1), s.lineEnd(first.Line-1)
	var entry strings.Builder
	for _, text := range append([]string{head}, below...) {
		entry.WriteString(indent + text + end)
	}
	text := entry.String()
	if line >= len(s.lines) { // the file's last line does not end
		s.splices = append(s.splices, splice{offset: len(s.text), text: end + strings.TrimSuffix(text, end)})
		return nil
	}
	s.splices = append(s.splices, splice{offset: s.lines[line], text: text})
	return nil
}

// lineForEntry is the line, counted from 0, before which a new entry of a block mapping goes.
func (s *splicer) lineForEntry(mapping *yaml.Node) (int, bool) {
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

func (s *splicer) textOfLine(line int) []byte {
	if line+1 < len(s.lines) {
		return s.text[s.lines[line]:s.lines[line+1]]
	}
	return s.text[s.lines[line]:]
}

// lineEnd is how a line ends; the last one, which may have no end, as the first.
func (s *splicer) lineEnd(line int) string {
	if line+1 >= len(s.lines) {
		line = 0
	}
	if bytes.HasSuffix(s.textOfLine(line), []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func quoted(value string) string {
	if isDigest(value) {
		return `"` + value + `"`
	}
	text, err := syntax.CompactJSON(value)
	if err != nil {
		return `""` // a string always marshals
	}
	return string(text)
}

func isDigest(value string) bool { return strings.HasPrefix(value, "sha256:") }
