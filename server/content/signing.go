package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/syntax"
	"examprep.dev/server/seals"
)

// SignatureState is the state of a signature without a set of trusted verifiers.
type SignatureState string

// The states of a signature.
const (
	// SignaturePresent is a signature of this seal, trusted or not.
	SignaturePresent SignatureState = "present"
	// SignatureStale is of another paper, of other content, or cannot be read.
	SignatureStale SignatureState = "stale"
	// SignatureRemoved was stale and is taken out of the file.
	SignatureRemoved SignatureState = "removed"
	// SignatureWritten was put into the file.
	SignatureWritten SignatureState = "written"
)

// remark is how a line of `content digest` ends.
func (s SignatureState) remark() string {
	switch s {
	case SignaturePresent:
		return ", signed"
	case SignatureStale:
		return ", SIGNATURE STALE: sign again"
	case SignatureRemoved:
		return ", stale signature removed: sign again"
	case SignatureWritten:
		return ", signature written"
	default:
		return ""
	}
}

func signatureState(examKey string, paper catalog.Paper) SignatureState {
	if paper.Verification == nil || paper.Verification.Signature == "" {
		return ""
	}
	statement, err := paper.Statement(examKey)
	if err == nil {
		err = seals.Inspect(statement, paper.Verification.Signature)
	}
	if err != nil {
		return SignatureStale
	}
	return SignaturePresent
}

// Message returns the exact bytes that a verifier of a paper of b signs. paperID may be empty where b holds one paper. It
// fails with *ProblemsError when the paper's seal is not there or not the paper's own.
func Message(ctx context.Context, b *Files, paperID string) ([]byte, error) {
	found, err := findPaper(ctx, b, paperID)
	if err != nil {
		return nil, err
	}
	return found.statement.Message()
}

// Sign writes a signature into the file of a paper of b, at verification.signature, and replaces an earlier one. It fails with
// *ProblemsError if the signature is not one of the paper's present seal. Lint and the operator check whether its verifier is trusted. No
// other byte of the file changes.
func Sign(ctx context.Context, b *Files, paperID, signature string) (DigestReport, error) {
	found, err := findPaper(ctx, b, paperID)
	if err != nil {
		return DigestReport{}, err
	}
	at := found.path().Field("verification").Field("signature")
	signature = assemble.Lines(strings.TrimSpace(signature))
	if err := seals.Inspect(found.statement, signature); err != nil {
		return DigestReport{}, found.problem(at, err)
	}
	var edits sealEdits
	edits.put(found.content, newSeal{
		doc: &found.content.doc, paper: found.path(), digest: found.statement.Digest, resign: true, signature: signature,
	})
	if err := edits.apply(ctx); err != nil {
		return DigestReport{}, err
	}
	return DigestReport{Papers: []PaperSeal{{
		Position: found.content.doc.Position(found.path()), ExamKey: found.statement.ExamKey, PaperID: found.statement.PaperID,
		Digest: found.statement.Digest, Sealed: found.statement.Digest, Matches: true, Written: true, Signature: SignatureWritten,
	}}}, nil
}

// foundPaper is a paper to sign.
type foundPaper struct {
	content   *Content
	index     int
	statement seals.Statement
}

func (f *foundPaper) path() syntax.Path {
	return syntax.Path{}.Field("spec").Field("papers").At(f.index)
}

func (f *foundPaper) problem(at syntax.Path, err error) error {
	return &ProblemsError{Problems: []Problem{{
		Position: f.content.doc.Position(at), Field: at.String(), Detail: err.Error(),
	}}}
}

// findPaper finds the paper to sign, and the statement to sign.
func findPaper(ctx context.Context, b *Files, paperID string) (*foundPaper, error) {
	if err := b.Err(); err != nil {
		return nil, err
	}
	found, err := locatePaper(b, paperID)
	if err != nil {
		return nil, err
	}
	exam, err := assembleUnchecked(ctx, found.content, b)
	if err != nil {
		return nil, err
	}
	if found.statement, err = exam.Papers[found.index].Statement(found.content.Spec.ExamKey); err != nil {
		return nil, found.problem(found.path().Field("verification"),
			fmt.Errorf("the paper %w: seal it first, with content digest --write", err))
	}
	return found, nil
}

// locatePaper finds the one paper of this ID; any ID will do if it is empty.
func locatePaper(b *Files, paperID string) (*foundPaper, error) {
	var found *foundPaper
	count := 0
	for i := range b.Contents {
		content := &b.Contents[i]
		for j := range content.Spec.Papers {
			if paperID != "" && content.Spec.Papers[j].PaperID != paperID {
				continue
			}
			count++
			found = &foundPaper{content: content, index: j}
		}
	}
	switch {
	case count == 0:
		return nil, fmt.Errorf("there is no paper %s in these files", paperID)
	case count > 1 && paperID == "":
		return nil, fmt.Errorf("there are %d papers in these files: name one with --paper", count)
	case count > 1:
		return nil, fmt.Errorf("there are %d papers %s in these files: name fewer files", count, paperID)
	}
	return found, nil
}

// seal reports an invalid signature. Without verifiers it checks only that the signature is one of this seal.
func (l *linter) seal(content *Content, index int, paper *catalog.Paper) {
	at := syntax.Path{}.Field("spec").Field("papers").At(index).Field("verification")
	severity := SeverityError
	if l.verifiers == nil && (paper.Verification == nil || paper.Verification.Signature == "") {
		if paper.Verification == nil {
			return
		}
		severity = SeverityWarning // sandbox publishes it
	}
	statement, err := paper.Statement(content.Spec.ExamKey)
	var unsealed *catalog.UnsealedError
	switch {
	case errors.As(err, &unsealed):
		l.once(&content.doc, at, severity, "the paper "+unsealed.Error())
		return
	case err != nil || severity == SeverityWarning:
		return // has no canonical form, which is reported at its field, or a right digest
	case l.verifiers != nil:
		err = l.verifiers.Verify(statement, paper.Verification.Signature)
	default:
		err = seals.Inspect(statement, paper.Verification.Signature)
	}
	if err != nil {
		at = at.Field("signature")
		l.reportOnce(&content.doc, at, err.Error())
	}
}

// resign takes out the signature that is there and puts another in, "" for none.
func (s *splicer) resign(verification *yaml.Node, signature string) error {
	// The order matters: an insertion comes before a removal at the same offset.
	if lines := strings.Split(signature, "\n"); len(lines) > 1 {
		for i := range lines {
			lines[i] = "  " + lines[i]
		}
		if err := s.insert(verification, "signature: |", lines, quoted("signature")+": "+quoted(signature)); err != nil {
			return err
		}
	} else if signature != "" {
		if err := s.insert(verification, "signature: "+quoted(signature), nil, quoted("signature")+": "+quoted(signature)); err != nil {
			return err
		}
	}
	for i := 0; i < len(verification.Content); i += 2 {
		if verification.Content[i].Value != "signature" {
			continue
		}
		if verification.Style&yaml.FlowStyle != 0 {
			return s.removeInline(verification, i)
		}
		return s.removeLines(verification, i)
	}
	return nil
}

// removeInline takes the entry whose key is mapping.Content[i] out of braces, with a comma.
func (s *splicer) removeInline(mapping *yaml.Node, i int) error {
	from, err := s.offset(mapping.Content[i])
	if err != nil {
		return err
	}
	if i+2 < len(mapping.Content) {
		to, err := s.offset(mapping.Content[i+2])
		if err != nil {
			return err
		}
		s.splices = append(s.splices, splice{offset: from, length: to - from})
		return nil
	}
	value := mapping.Content[i+1]
	to, err := s.offset(value)
	if err != nil {
		return err
	}
	before := bytes.TrimRight(s.text[:from], " \t\r\n")
	comma := len(before) - 1
	written := []byte(quoted(value.Value))
	if !bytes.HasSuffix(before, []byte(",")) || !bytes.HasPrefix(s.text[to:], written) {
		return errNotEditable
	}
	s.splices = append(s.splices, splice{offset: comma, length: to + len(written) - comma})
	return nil
}

// removeLines takes the lines of the entry whose key is mapping.Content[i] out of a block. Comments and blank lines below
// it stay.
func (s *splicer) removeLines(mapping *yaml.Node, i int) error {
	key := mapping.Content[i]
	first := key.Line - 1
	at, err := s.offset(key)
	if err != nil || len(bytes.TrimSpace(s.text[s.lines[first]:at])) > 0 {
		return errNotEditable
	}
	end := first + 1
	if i+2 < len(mapping.Content) {
		end = mapping.Content[i+2].Line - 1
	} else {
		for end < len(s.lines) && s.belongs(end, key.Column-1) {
			end++
		}
	}
	for end > first+1 {
		if last := bytes.TrimSpace(s.textOfLine(end - 1)); len(last) > 0 && last[0] != '#' {
			break
		}
		end--
	}
	to := len(s.text)
	if end < len(s.lines) {
		to = s.lines[end]
	}
	s.splices = append(s.splices, splice{offset: s.lines[first], length: to - s.lines[first]})
	return nil
}

// belongs reports whether a line is blank or indented more than indent.
func (s *splicer) belongs(line, indent int) bool {
	text := bytes.TrimRight(s.textOfLine(line), "\r\n")
	inner := bytes.TrimLeft(text, " ")
	return len(inner) == 0 || len(text)-len(inner) > indent
}
