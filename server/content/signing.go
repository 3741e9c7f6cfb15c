package content

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
// *ProblemsError if the signature is not one of the paper's present seal. Lint and the operator check whether its verifier is trusted. Comments
// in verification are lost. No other byte of the file changes.
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
	seal := *found.content.Spec.Papers[found.index].Verification
	seal.Signature = signature
	var edits edits
	edits.add(sealEdit{content: found.content, paper: found.index, seal: seal})
	if err := edits.write(ctx); err != nil {
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
