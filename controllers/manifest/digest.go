package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
)

// DigestOptions shape one Digest.
type DigestOptions struct {
	// Write puts the digests into the files, at verification.digest, takes signatures out that do not cover what they
	// stand beside, and leaves every other byte as it is.
	Write bool
	// By and At replace verification.by and .at of the papers whose digest is written. Empty: what the file holds is
	// kept, and a paper without them is an error. At is a date or an RFC 3339 time.
	By, At string
	// Paper limits all of it to the paper of this ID; empty: every paper.
	Paper string
}

// Check refuses a By or At that no seal can have. It fails with a *ReviewerError.
func (o DigestOptions) Check() error { return checkReviewer(o.By, o.At) }

// ReviewerError says that a seal cannot carry a reviewer's name or a time.
type ReviewerError struct {
	// Option is "by" or "at".
	Option string
	Detail string
}

func (e *ReviewerError) Error() string { return e.Option + ": " + e.Detail }

// maxReviewer is the schema's limit of verification.by, in characters.
const maxReviewer = 200

// checkReviewer holds what is not empty against the rules for a seal.
func checkReviewer(by, at string) error {
	if utf8.RuneCountInString(by) > maxReviewer {
		return &ReviewerError{Option: "by", Detail: fmt.Sprintf("must have at most %d characters", maxReviewer)}
	}
	given := catalog.Verification{By: by, At: at, Digest: catalog.Digest{}.String()}
	for _, problem := range catalog.CheckVerification(given) {
		if problem.Field == "by" && by != "" || problem.Field == "at" && at != "" {
			return &ReviewerError{Option: problem.Field, Detail: problem.Detail}
		}
	}
	return nil
}

// DigestReport tells the seal digest of each paper.
type DigestReport struct {
	Papers []PaperSeal `json:"papers"`
}

// PaperSeal is a paper's seal digest beside what its file says.
type PaperSeal struct {
	Position

	ExamKey string `json:"exam_key"`
	PaperID string `json:"paper_id"`
	// Digest is that of the paper as it stands; Sealed what verification.digest says, "" for nothing.
	Digest string `json:"digest"`
	Sealed string `json:"sealed,omitempty"`
	// Matches is true when the two agree (after writing, when it was asked for); Written when the file was changed.
	Matches bool `json:"matches"`
	Written bool `json:"written,omitempty"`
	// Signature tells of verification.signature; empty without one.
	Signature SignatureState `json:"signature,omitempty"`
}

// String prints the seal in one line.
func (s PaperSeal) String() string {
	state := "no seal"
	switch {
	case s.Written && s.Signature != SignatureWritten:
		state = "sealed now"
	case s.Matches:
		state = "seal matches"
	case s.Sealed != "":
		state = "SEAL DIFFERS: " + s.Sealed
	}
	return fmt.Sprintf("%s  %s/%s  %s%s", s.Digest, s.ExamKey, s.PaperID, state, s.Signature.remark())
}

// WriteText prints one paper a line.
func (r DigestReport) WriteText(w io.Writer) error { return writeLines(w, r.Papers) }

// Digest computes the seal digest of every paper of b, and writes it into the files if asked to. Papers whose chunks
// cannot be read have none: it fails with Assemble's reference errors, with *ProblemsError or *ReviewerError. When it fails no file is
// changed, except that files written before an error of the file system stay written.
func Digest(ctx context.Context, b *Bundle, options DigestOptions) (DigestReport, error) {
	if err := errors.Join(options.Check(), b.Err()); err != nil {
		return DigestReport{}, err
	}
	if options.Paper != "" {
		if _, err := locatePaper(b, options.Paper); err != nil {
			return DigestReport{}, err
		}
	}
	seals, edits := []PaperSeal{}, sealEdits{}
	for i := range b.Contents {
		content := &b.Contents[i]
		if !slices.ContainsFunc(content.Spec.Papers, func(p v1alpha1.Paper) bool { return options.selects(p.PaperID) }) {
			continue
		}
		exam, err := assembleUnchecked(ctx, content, b)
		if err != nil {
			return DigestReport{}, err
		}
		for j, paper := range exam.Papers {
			if !options.selects(paper.ID) {
				continue
			}
			seal, err := edits.seal(content, j, paper, options)
			if err != nil {
				return DigestReport{}, err
			}
			seals = append(seals, seal)
		}
	}
	if err := edits.apply(); err != nil {
		return DigestReport{}, err
	}
	return DigestReport{Papers: seals}, nil
}

// selects reports whether the options are about a paper.
func (o DigestOptions) selects(paper string) bool { return o.Paper == "" || o.Paper == paper }

// seal returns the seal of a paper, as it is after the edits. It adds the edit that the options ask for.
func (e *sealEdits) seal(content *Content, index int, paper catalog.Paper, options DigestOptions) (PaperSeal, error) {
	seal, err := sealOf(content, index, paper)
	if err != nil {
		return PaperSeal{}, err
	}
	stale := seal.Signature == SignatureStale
	if options.Write && (!seal.Matches || stale) {
		e.add(content, index, seal.Digest, options)
		seal.Written, seal.Matches = true, true
		if stale {
			seal.Signature = SignatureRemoved
		}
	}
	return seal, nil
}

// assembleUnchecked is Assemble without the catalogue's rules: a seal may be looked at while the paper is at work.
func assembleUnchecked(ctx context.Context, content *Content, chunks ChunkReader) (catalog.Exam, error) {
	a := assembler{content: &content.ExamContent, chunks: chunks, budget: MaxExamBytes}
	if err := a.run(ctx); err != nil {
		return catalog.Exam{}, err
	}
	if len(a.refErrors) > 0 {
		return catalog.Exam{}, fmt.Errorf("%s: %w", content.Position.File, a.refErrors)
	}
	if len(a.problems) > 0 {
		for i, problem := range a.problems {
			a.problems[i] = a.inResource(problem)
		}
		return catalog.Exam{}, fmt.Errorf("%s: %w", content.Position.File, &catalog.ValidationError{Problems: a.problems})
	}
	return a.exam, nil
}

func sealOf(content *Content, index int, paper catalog.Paper) (PaperSeal, error) {
	p := path{}.field("spec").field("papers").at(index)
	digest, err := paper.SealDigest()
	if err != nil {
		return PaperSeal{}, fmt.Errorf("%s: %s: %w", content.Position.File, p, err)
	}
	seal := PaperSeal{
		Position: content.doc.position(p),
		ExamKey:  content.Spec.ExamKey, PaperID: paper.ID,
		Digest: digest.String(),
	}
	if paper.Verification != nil {
		seal.Sealed = paper.Verification.Digest
	}
	seal.Matches = seal.Sealed == seal.Digest
	seal.Signature = signatureState(content.Spec.ExamKey, paper)
	return seal, nil
}
