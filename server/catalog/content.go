package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/gowebpki/jcs"

	"examprep.dev/server/webhooks"
)

// paperRef is a paper's place in a revision of its exam. Its JSON is part of the exam's digest.
type paperRef struct {
	PaperID      string        `json:"paper_id"`
	Digest       Digest        `json:"digest"`
	Verification *Verification `json:"verification,omitempty"`
	// Sealed reports whether Verification has the paper's seal digest, whatever its signature.
	Sealed    bool `json:"-"`
	Questions int  `json:"-"`
	// untrusted is the reason why the present trusted verifiers refuse the signature of a right digest (judge). It is never stored.
	untrusted error
	Seal      Digest `json:"-"`
	// Title is set in drafts and loaded revisions, not in a pin.
	Title string `json:"-"`
}

// counts reports whether the paper has a seal that counts, once judge has seen it.
func (r *paperRef) counts() bool { return r.Sealed && r.untrusted == nil }

// content is one version of an exam, its papers by reference only.
type content struct {
	// exam has no Papers.
	exam     Exam
	document []byte
	digest   Digest
	// papers are in the order of their IDs: the order in a file is not content.
	papers []paperRef
	// pin is the revision whose content a roll-back publishes again; 0 otherwise.
	pin int64
}

// draft is content to publish, with the sources of its papers.
type draft struct {
	content
	scoring Scoring
	// sources has the papers in the order of content.papers.
	sources []Paper
}

// prepare computes what identifies a valid exam and its papers.
func prepare(valid ValidExam) (*draft, error) {
	exam, scoring := valid.exam, valid.scoring
	if exam.Key == "" {
		return nil, ErrNotValidated
	}
	d := &draft{scoring: scoring, sources: slices.SortedFunc(slices.Values(exam.Papers), func(a, b Paper) int {
		return cmp.Compare(a.ID, b.ID)
	})}
	for i := range d.sources {
		ref, err := reference(exam, &d.sources[i], scoring)
		if err != nil {
			return nil, err
		}
		d.papers = append(d.papers, ref)
	}
	d.exam = exam
	d.exam.Papers = nil
	if isAbsent(d.exam.Scoring) { // null would be served as null
		d.exam.Scoring = nil
	}
	var err error
	if d.document, err = Encode(d.exam); err != nil {
		return nil, err
	}
	d.digest, err = examDigest(d.exam, d.papers)
	return d, err
}

// Identify returns what publishing an exam reports of its content: the digests, and the papers without a seal.
func Identify(exam ValidExam) (Publication, error) {
	d, err := prepare(exam)
	if err != nil {
		return Publication{}, err
	}
	return d.publication(0, false), nil
}

func reference(exam Exam, paper *Paper, scoring Scoring) (paperRef, error) {
	seal, err := paper.SealDigest()
	if err != nil {
		return paperRef{}, fmt.Errorf("paper %s: %w", paper.ID, err)
	}
	digest, err := paperRevisionDigest(seal, effectiveDuration(exam, paper), scoring)
	if err != nil {
		return paperRef{}, fmt.Errorf("paper %s: %w", paper.ID, err)
	}
	return paperRef{
		PaperID: paper.ID, Digest: digest, Verification: paper.Verification, Sealed: paper.Verification.of(seal), Seal: seal,
		Title: paper.Title, Questions: len(paper.Questions),
	}, nil
}

// effectiveDuration is the paper's time limit in minutes, else the exam's.
func effectiveDuration(exam Exam, paper *Paper) int {
	return cmp.Or(paper.DurationMinutes, exam.DurationMinutes)
}

// publication returns c as published.
func (c *content) publication(revision int64, changed bool) Publication {
	published := Publication{
		Revision: revision, Changed: changed, Digest: c.digest, PaperDigests: make(map[string]Digest, len(c.papers)),
		QuestionCounts: make(map[string]int, len(c.papers)),
	}
	for i := range c.papers {
		paper := &c.papers[i]
		published.PaperDigests[paper.PaperID], published.QuestionCounts[paper.PaperID] = paper.Digest, paper.Questions
		if !paper.counts() {
			published.Unsealed = append(published.Unsealed, paper.PaperID)
		}
	}
	return published
}

// The words of an event's changes. They name the refreshed documents without their content: customers get the event, and must not
// get a changed answer.
const (
	changedOverview  = "overview"
	changedResources = "resources"
	changedStudyPath = "study_path"
	changedPapers    = "papers"
	changedWithdrawn = "withdrawn"
)

// refreshed tells a customer which documents of the exam and which papers differ between two versions; previous is nil
// when the exam was not served before.
func refreshed(previous, next *content, key string, revision int64) webhooks.ContentUpdated {
	updated := webhooks.ContentUpdated{ExamKey: key, Changes: []string{}, PaperIDs: []string{}, ContentVersion: revision}
	if previous == nil {
		previous = &content{}
		updated.Changes = append(updated.Changes, changedOverview, changedResources, changedStudyPath)
	} else {
		updated.Changes = append(updated.Changes, refreshedDocuments(previous.exam, next.exam)...)
	}
	before := make(map[string]paperRef, len(previous.papers))
	for _, paper := range previous.papers {
		before[paper.PaperID] = paper
	}
	for _, paper := range next.papers {
		old, existed := before[paper.PaperID]
		delete(before, paper.PaperID)
		if !existed || old.Digest != paper.Digest || !reflect.DeepEqual(old.Verification, paper.Verification) {
			updated.PaperIDs = append(updated.PaperIDs, paper.PaperID)
		}
	}
	for id := range before {
		updated.PaperIDs = append(updated.PaperIDs, id)
	}
	if slices.Sort(updated.PaperIDs); len(updated.PaperIDs) > 0 {
		updated.Changes = append(updated.Changes, changedPapers)
	}
	return updated
}

func refreshedDocuments(old, next Exam) []string {
	var changes []string
	for _, document := range []struct {
		name      string
		old, next any
	}{
		{changedOverview, specification(old), specification(next)},
		{changedResources, old.Resources, next.Resources},
		{changedStudyPath, old.StudyPath, next.StudyPath},
	} {
		if !sameJSON(document.old, document.next) {
			changes = append(changes, document.name)
		}
	}
	return changes
}

// specification is the exam without what has documents of its own.
func specification(exam Exam) Exam {
	exam.Resources, exam.StudyPath, exam.Papers = Resources{}, StudyPath{}, nil
	return exam
}

// sameJSON compares two documents by their canonical form.
func sameJSON(a, b any) bool { return canonicalText(a) == canonicalText(b) }

// canonicalText is the RFC 8785 form of v; its plain JSON should there be none.
func canonicalText(v any) string {
	raw, err := Encode(v)
	if err != nil {
		return ""
	}
	if form, err := jcs.Transform(raw); err == nil {
		return string(form)
	}
	return string(raw)
}

// Encode returns the JSON of v without json.Marshal's escapes for HTML, so that served text equals the declared text.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
