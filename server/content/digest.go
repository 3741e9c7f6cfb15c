package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/progress"
	"examprep.dev/server/content/syntax"
)

// DigestOptions shape one Digest.
type DigestOptions struct {
	// Write writes the digests into the files, at verification.digest, and removes signatures of another seal. It changes no other byte.
	Write bool
	// By and At replace verification.by and .at of the papers whose digest is written. If empty, those of the file are kept, and a paper
	// without them is an error. At is a date or an RFC 3339 time.
	By, At string
	// Paper is the ID of the only paper to handle; if empty, all papers.
	Paper string
}

// Check refuses a By or At that no seal can have. It fails with a *ReviewerError.
func (o DigestOptions) Check() error { return checkReviewer(o.By, o.At) }

// ReviewerError is returned for a name or a time that a seal cannot have.
type ReviewerError struct {
	// Option is "by" or "at".
	Option string
	Detail string
}

func (e *ReviewerError) Error() string { return e.Option + ": " + e.Detail }

// maxReviewer is the schema's limit of verification.by, in characters.
const maxReviewer = 200

// checkReviewer checks by and at, unless they are empty, by the rules for a seal.
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

// DigestReport lists the seal digest of each paper.
type DigestReport struct {
	Papers []PaperSeal `json:"papers"`
}

// PaperSeal compares a paper's digest with the seal in its file.
type PaperSeal struct {
	syntax.Position

	ExamKey string `json:"exam_key"`
	PaperID string `json:"paper_id"`
	// Digest is the digest of the paper; Sealed is verification.digest, or "".
	Digest string `json:"digest"`
	Sealed string `json:"sealed,omitempty"`
	// Matches reports whether the two are equal, after a write if there was one. Written reports whether the file was changed.
	Matches bool `json:"matches"`
	Written bool `json:"written,omitempty"`
	// Signature is the state of verification.signature; empty without one.
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
func (r DigestReport) WriteText(w io.Writer) error { return WriteLines(w, r.Papers) }

// Digest computes the seal digest of every paper of b, and writes it into the files if options ask for it. It fails with the reference errors
// of assemble, with *ProblemsError or *ReviewerError. Then no file is changed, except those written before an error of the file system.
func Digest(ctx context.Context, b *Files, options DigestOptions) (DigestReport, error) {
	if err := errors.Join(options.Check(), b.errWithoutSeals()); err != nil {
		return DigestReport{}, err
	}
	if options.Paper != "" {
		if _, err := locatePaper(b, options.Paper); err != nil {
			return DigestReport{}, err
		}
	}
	seals, edits := []PaperSeal{}, sealEdits{}
	steps := progress.From(ctx)
	steps.Start("digesting", int64(len(b.Contents)), progress.Files)
	for i := range b.Contents {
		steps.Add(1)
		if err := ctx.Err(); err != nil {
			return DigestReport{}, err
		}
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
	if err := edits.apply(ctx); err != nil {
		return DigestReport{}, err
	}
	return DigestReport{Papers: seals}, nil
}

// errWithoutSeals is Err without the problems of seals, which Digest can write.
func (b *Files) errWithoutSeals() error {
	problems := slices.DeleteFunc(slices.Clone(b.problems), func(p Problem) bool { return strings.Contains(p.Field, "].verification") })
	return AsError(SortProblems(problems))
}

// selects reports whether the options include a paper.
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

// assembleUnchecked assembles without the catalogue's rules, because an unfinished paper has a digest too.
func assembleUnchecked(ctx context.Context, content *Content, chunks assemble.ChunkReader) (catalog.Exam, error) {
	a, err := assemble.Read(ctx, &content.ExamContent, chunks)
	if err != nil {
		return catalog.Exam{}, err
	}
	if len(a.Refused) > 0 {
		return catalog.Exam{}, fmt.Errorf("%s: %w", content.Position.File, a.Refused)
	}
	if err := a.Invalid(); err != nil {
		return catalog.Exam{}, fmt.Errorf("%s: %w", content.Position.File, err)
	}
	return a.Exam, nil
}

func sealOf(content *Content, index int, paper catalog.Paper) (PaperSeal, error) {
	p := syntax.Path{}.Field("spec").Field("papers").At(index)
	digest, err := paper.SealDigest()
	if err != nil {
		return PaperSeal{}, fmt.Errorf("%s: %s: %w", content.Position.File, p, err)
	}
	seal := PaperSeal{
		Position: content.doc.Position(p),
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
