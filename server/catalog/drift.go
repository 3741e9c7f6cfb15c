package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"examprep.dev/server/postgres/catalogdb"
	"examprep.dev/server/webhooks"
)

// maxRepairChanges is the maximum number of changes in a Repair, which is stored in one row.
const maxRepairChanges = 50

// Repair describes a restored revision: published content that was changed in the database.
type Repair struct {
	At time.Time `json:"-"`
	// Changes lead from the found content to the declared content. They can contain answers: only the exam's owner may read them.
	Changes []Change `json:"changes"`
	// More is the number of further changes.
	More int `json:"more,omitempty"`
}

// newRepair decodes a stored repair. If that fails it keeps only the time: a damaged repair record must not block publishing.
func newRepair(at time.Time, raw []byte) *Repair {
	r := &Repair{At: at}
	if json.Unmarshal(raw, r) != nil {
		return &Repair{At: at}
	}
	return r
}

// String lists the first changes with their values.
func (r *Repair) String() string { return r.list(Change.String) }

// Places lists the first changes without values, for readers other than the exam's owner.
func (r *Repair) Places() string { return r.list(Change.Place) }

func (r *Repair) list(text func(Change) string) string {
	const shown = 5
	var b bytes.Buffer
	for i, change := range r.Changes {
		if i == shown {
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(text(change))
	}
	if more := len(r.Changes) + r.More - shown; more > 0 {
		fmt.Fprintf(&b, "; and %d more changes", more)
	}
	return b.String()
}

// DamagedError reports that the stored content of a pinned revision was changed in the database. No resource declares this content,
// so it cannot be restored. The pinned revision is not published, and the served revision stays.
type DamagedError struct {
	ExamKey  string
	Revision int64
	// Papers are the IDs of the changed papers; empty when the revision's own rows were changed.
	Papers []string
}

func (e *DamagedError) Error() string {
	if len(e.Papers) == 0 {
		return fmt.Sprintf("revision %d of exam %s was changed in the database", e.Revision, e.ExamKey)
	}
	return fmt.Sprintf("revision %d of exam %s: the stored content of these papers was changed in the database: %.500s",
		e.Revision, e.ExamKey, fmt.Sprint(e.Papers))
}

// note stores the changes of a repair. It returns nil without changes.
func (c *change) note(ctx context.Context, q *catalogdb.Queries, revision int64, drift []Change) (*Repair, error) {
	if len(drift) == 0 {
		return nil, nil //nolint:nilnil // no change, no repair
	}
	repair := &Repair{At: c.at, Changes: drift[:min(len(drift), maxRepairChanges)]}
	repair.More = len(drift) - len(repair.Changes)
	raw, err := Encode(repair)
	if err != nil {
		return nil, err
	}
	row := catalogdb.NoteRepairParams{ExamKey: c.next.exam.Key, Revision: revision, At: c.at, Changes: raw}
	if err := q.NoteRepair(ctx, row); err != nil {
		return nil, fmt.Errorf("note the repair: %w", err)
	}
	return repair, nil
}

// displaced returns the changes made in the database to the published revision that a new one replaces.
func (c *change) displaced(ctx context.Context, q *catalogdb.Queries) ([]Change, error) {
	var drift []Change
	known := max(c.found.newest, c.options.Remembered.Revision)
	switch {
	case c.current.revision < known && (c.found.newest > c.current.revision || c.options.Remembered.Revision > 0):
		drift = append(drift, Change{
			Kind: Changed, Field: "published revision", Old: strconv.FormatInt(c.current.revision, 10), New: strconv.FormatInt(known, 10),
		})
	// An owner withdraws by releasing its claim. An owner that has published nothing yet may have taken the free claim of an
	// exam that the owner before had withdrawn.
	case c.current.withdrawn && c.current.ownedBy(c.claim) && c.options.Remembered.Revision == c.current.revision:
		drift = append(drift, Change{Kind: Changed, Field: "withdrawn", Old: "true", New: "false"})
	case c.current.revision > 0 && !c.found.intact:
		drift = append(drift, Change{Kind: Changed, Field: fmt.Sprintf("revision %d as stored", c.current.revision)})
	}
	papers, _, err := c.damagedPapers(ctx, q)
	return append(drift, papers...), err
}

// damage returns the differences between the stored and the written published revision, and the IDs of the affected papers.
func (c *change) damage(ctx context.Context, q *catalogdb.Queries) (drift []Change, papers []string, err error) {
	d := &comparison{}
	d.field("published digest", c.current.digest.String(), c.next.digest.String())
	drift = d.changes
	if !c.found.intact {
		changes := c.damagedRevision()
		if len(changes) == 0 && len(drift) == 0 {
			changes = []Change{{Kind: Changed, Field: fmt.Sprintf("revision %d as stored", c.current.revision)}}
		}
		drift = append(drift, changes...)
	}
	changes, papers, err := c.damagedPapers(ctx, q)
	return append(drift, changes...), papers, err
}

// damagedRevision compares the revision's own rows.
func (c *change) damagedRevision() []Change {
	if c.found.content == nil {
		return []Change{{Kind: Removed, Field: fmt.Sprintf("revision %d", c.current.revision), Old: "its row, or what it said"}}
	}
	changes := compareExams(c.found.content.exam, c.next.exam)
	before := make(map[string]paperRef, len(c.found.content.papers))
	for _, ref := range c.found.content.papers {
		before[ref.PaperID] = ref
	}
	for _, next := range c.next.papers {
		old, existed := before[next.PaperID]
		if delete(before, next.PaperID); !existed {
			changes = append(changes, Change{Kind: Added, PaperID: next.PaperID, New: "was missing in the revision"})
			continue
		}
		d := &comparison{paperID: next.PaperID}
		d.field("digest", old.Digest.String(), next.Digest.String())
		d.field("sealed", yes(old.Sealed), yes(next.Sealed))
		d.field("verification", canonicalText(old.Verification), canonicalText(next.Verification))
		changes = append(changes, d.changes...)
	}
	for _, ref := range c.found.content.papers { // in order
		if _, stray := before[ref.PaperID]; stray {
			changes = append(changes, Change{Kind: Removed, PaperID: ref.PaperID, Old: "was not part of the revision"})
		}
	}
	if at, right := c.found.publishedAt, c.publishedAt(); !at.Equal(right) {
		changes = append(changes, Change{
			Kind: Changed, Field: "publishedAt", Old: at.UTC().Format(time.RFC3339), New: right.UTC().Format(time.RFC3339),
		})
	}
	return changes
}

// damagedPapers compares the papers whose stored form was changed with their declared form.
func (c *change) damagedPapers(ctx context.Context, q *catalogdb.Queries) (drift []Change, papers []string, err error) {
	if c.source == nil || len(c.found.damaged) == 0 {
		return nil, nil, nil
	}
	for i := range c.next.papers {
		ref := &c.next.papers[i]
		if !c.found.damaged[ref.Digest] {
			continue
		}
		changes, err := c.damagedPaper(ctx, q, i)
		if err != nil {
			return nil, nil, err
		}
		drift, papers = append(drift, changes...), append(papers, ref.PaperID)
	}
	return drift, papers, nil
}

func (c *change) damagedPaper(ctx context.Context, q *catalogdb.Queries, i int) ([]Change, error) {
	ref, paper := &c.next.papers[i], &c.source.sources[i]
	want, err := c.source.row(i)
	if err != nil {
		return nil, err
	}
	row, err := q.StoredPaper(ctx, catalogdb.StoredPaperParams{ExamKey: c.next.exam.Key, Digest: ref.Digest[:]})
	if isNoRows(err) {
		return []Change{{Kind: Added, PaperID: ref.PaperID, New: "was no longer stored"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read paper %s: %w", ref.PaperID, err)
	}
	changes := compareRows(row, want)
	old, err := wholePaper(catalogdb.WholePaperRow{
		PaperID: row.PaperID, Title: row.Title, Subject: row.Subject, Year: row.Year,
		Metadata: row.Metadata, Questions: row.Questions, AnswerKey: row.AnswerKey,
	})
	if err == nil {
		old.Verification = paper.Verification // the exam's revision has it
		changes = append(comparePapers(old, paper), changes...)
	}
	if len(changes) == 0 {
		changes = compareStored(ref.PaperID, row, want)
	}
	return changes, nil
}

// compareRows returns the differences of columns that no field of a paper shows.
func compareRows(row catalogdb.StoredPaperRow, want catalogdb.StagePaperParams) []Change {
	d := &comparison{paperID: want.PaperID}
	d.field("paperID", row.PaperID, want.PaperID)
	d.integer("questionCount", int(row.QuestionCount), int(want.QuestionCount))
	d.integer("time limit", int(row.DurationMinutes), int(want.DurationMinutes))
	d.field("seal digest", fmt.Sprintf("%x", row.SealDigest), fmt.Sprintf("%x", want.SealDigest))
	d.field("scoring of the answer key", scoringOf(row.AnswerKey), scoringOf(want.AnswerKey))
	return d.changes
}

// scoringOf is an answer key without its answers; empty when it cannot be read.
func scoringOf(raw []byte) string {
	var key AnswerKey
	if json.Unmarshal(raw, &key) != nil {
		return ""
	}
	key.Keys = nil
	return canonicalText(key)
}

// compareStored says which documents differ, where their content cannot be compared, or reads the same.
func compareStored(paperID string, row catalogdb.StoredPaperRow, want catalogdb.StagePaperParams) []Change {
	var changes []Change
	for _, document := range []struct {
		name      string
		old, next []byte
	}{
		{"metadata", row.Metadata, want.Metadata},
		{"questions", row.Questions, want.Questions},
		{"answer key", row.AnswerKey, want.AnswerKey},
	} {
		if !bytes.Equal(document.old, document.next) {
			changes = append(changes, Change{Kind: Changed, PaperID: paperID, Field: document.name + " as stored"})
		}
	}
	if len(changes) == 0 {
		changes = []Change{{Kind: Changed, PaperID: paperID, Field: "fingerprint"}}
	}
	return changes
}

// withPapers adds papers to the data of an event.
func withPapers(data webhooks.ContentUpdated, papers []string) webhooks.ContentUpdated {
	if len(papers) == 0 {
		return data
	}
	data.PaperIDs = append(data.PaperIDs, papers...)
	slices.Sort(data.PaperIDs)
	data.PaperIDs = slices.Compact(data.PaperIDs)
	if !slices.Contains(data.Changes, changedPapers) {
		data.Changes = append(data.Changes, changedPapers)
	}
	return data
}
