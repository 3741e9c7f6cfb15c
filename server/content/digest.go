package content

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/progress"
	"examprep.dev/server/content/syntax"
)

// DigestOptions shape one Digest.
type DigestOptions struct {
	// Write writes the digests into the files, at verification.digest, and removes signatures of another seal. Comments in verification
	// are lost. No other byte changes.
	Write bool
	// By and At replace verification.by and .at of the papers whose digest is written. If empty, those of the file are kept, unless
	// the file has another digest: its reviewer has read another paper. A paper without them is an error. At is a date or an RFC 3339 time.
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

// checkReviewer checks by and at, unless they are empty, by the rules for a seal.
func checkReviewer(by, at string) error {
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
	var missing []Problem
	seals, edits := []PaperSeal{}, edits{}
	steps := progress.From(ctx)
	steps.Start("digesting", int64(len(b.Contents)), progress.Files)
	for i := range b.Contents {
		steps.Add(1)
		if err := ctx.Err(); err != nil {
			return DigestReport{}, err
		}
		found, err := sealsOf(ctx, b, &b.Contents[i], options)
		if err != nil {
			return DigestReport{}, err
		}
		for _, found := range found {
			if found.edit != nil {
				missing = append(missing, found.edit.missing()...)
				edits.add(*found.edit)
			}
			seals = append(seals, found.seal)
		}
	}
	if err := AsError(SortProblems(missing)); err != nil {
		return DigestReport{}, err
	}
	if err := edits.write(ctx); err != nil {
		return DigestReport{}, err
	}
	return DigestReport{Papers: seals}, nil
}

// foundSeal is the seal of a paper, and its edit if the file must change.
type foundSeal struct {
	seal PaperSeal
	edit *sealEdit
}

// sealsOf returns the seals of the papers of content that the options select.
func sealsOf(ctx context.Context, b *Files, content *Content, options DigestOptions) ([]foundSeal, error) {
	if !slices.ContainsFunc(content.Spec.Papers, func(p v1alpha1.Paper) bool { return options.selects(p.PaperID) }) {
		return nil, nil
	}
	exam, err := assembleUnchecked(ctx, content, b)
	if err != nil {
		return nil, err
	}
	var seals []foundSeal
	for i, paper := range exam.Papers {
		if !options.selects(paper.ID) {
			continue
		}
		seal, err := sealOf(content, i, paper)
		if err != nil {
			return nil, err
		}
		found := foundSeal{seal: seal}
		if stale := seal.Signature == SignatureStale; options.Write && (!seal.Matches || stale) {
			edit := newSeal(content, i, seal, options)
			found.edit = &edit
			found.seal.Written, found.seal.Matches = true, true
			if stale {
				found.seal.Signature = SignatureRemoved
			}
		}
		seals = append(seals, found)
	}
	return seals, nil
}

// errWithoutSeals is Err without the problems of seals, which Digest can write.
func (b *Files) errWithoutSeals() error {
	problems := slices.DeleteFunc(slices.Clone(b.problems), func(p Problem) bool { return strings.Contains(p.Field, "].verification") })
	return AsError(SortProblems(problems))
}

// selects reports whether the options include a paper.
func (o DigestOptions) selects(paper string) bool { return o.Paper == "" || o.Paper == paper }

// newSeal returns the edit that replaces the seal of a paper. It removes the signature, which is one of the old seal.
func newSeal(content *Content, paper int, found PaperSeal, options DigestOptions) sealEdit {
	seal := v1alpha1.Verification{By: options.By, At: options.At, Digest: found.Digest}
	if old := content.Spec.Papers[paper].Verification; old != nil && (found.Sealed == "" || found.Matches) {
		seal.By, seal.At = cmp.Or(seal.By, old.By), cmp.Or(seal.At, old.At)
	}
	return sealEdit{content: content, paper: paper, seal: seal}
}

// missing returns a problem for each field that the seal lacks.
func (e sealEdit) missing() (problems []Problem) {
	detail := "is required with a digest: write it, or give --"
	if old := e.content.Spec.Papers[e.paper].Verification; old != nil && old.Digest != "" && old.Digest != e.seal.Digest {
		detail = "is of another digest, and the paper has changed since: a reviewer must read it and give --"
	}
	for field, value := range map[string]string{"by": e.seal.By, "at": e.seal.At} {
		if at := e.path().Field("verification").Field(field); value == "" {
			problems = append(problems, Problem{
				Position: e.content.doc.Position(at), Field: at.String(), Detail: detail + field,
			})
		}
	}
	return problems
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
