package catalog_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// modelRevision is a revision in modelExam: which content it has, and which revision it restored.
type modelRevision struct {
	content  int
	restored int64
}

// modelExam is what the model knows of one exam key: its owner, what is served, and which revisions are kept.
type modelExam struct {
	owner     string // empty: no resource owns the key
	revision  int64  // 0 while nothing is published
	withdrawn bool
	revisions map[int64]modelRevision
}

func (m *modelExam) clone() *modelExam {
	c := *m
	c.revisions = maps.Clone(m.revisions)
	return &c
}

func (m *modelExam) served() bool { return m.revision > 0 && !m.withdrawn }

func (m *modelExam) serves(content int) bool {
	return m.served() && m.revisions[m.revision].content == content
}

// conflict returns the owner who keeps a claimant out.
func (m *modelExam) conflict(claimant string, adopt bool) string {
	if m.owner == claimant || adopt {
		return ""
	}
	return m.owner
}

// declareUnsealed is a publication that the seal gate refuses. It returns who else owns the key.
func (m *modelExam) declareUnsealed(claimant string) (owner string, unclaimed bool) {
	switch {
	case m.owner == claimant:
		return "", false
	case m.owner != "":
		return m.owner, false
	case m.served():
		return "", true
	default:
		m.owner = claimant
		return "", false
	}
}

// rollsBack reports whether a claimant that the key's owner lets in gets revision pin, and whether it is refused because it has
// published nothing under the key.
func (m *modelExam) rollsBack(pin, remembered int64) (ok, unowned bool) {
	_, kept := m.revisions[pin]
	unowned = kept && (!m.served() || m.owner == "") && remembered == 0
	return kept && !unowned, unowned
}

// publish makes content what is served, and returns the revision and whether it is new.
func (m *modelExam) publish(claimant string, next modelRevision, remembered int64, limit int) (revision int64, changed bool) {
	m.owner = claimant
	if m.serves(next.content) {
		return m.revision, false
	}
	newest := int64(0)
	for number := range m.revisions {
		newest = max(newest, number)
	}
	before := slices.Sorted(maps.Keys(m.revisions))
	m.revision, m.withdrawn = max(m.revision, newest, remembered)+1, false
	m.revisions[m.revision] = next
	if limit > 0 && len(before) > 0 {
		// A step is longer than an hour, so only the last revision before this one has a successor that is too young.
		for _, number := range before[:max(0, min(len(before)-1, len(before)+1-limit))] {
			if number != next.restored {
				delete(m.revisions, number)
			}
		}
	}
	return m.revision, true
}

func (m *modelExam) release(claimant string, withdraw bool) {
	if m.owner != claimant {
		return
	}
	m.owner = ""
	m.withdrawn = m.withdrawn || withdraw && m.revision > 0
}

// examHistory plays operations on one exam of a database, and the same on the model.
type examHistory struct {
	*bench
	t          *testing.T
	key        string
	clock      time.Time
	model      *modelExam
	remembered map[string]catalog.Remembered
	digests    map[catalog.Digest]int
	saved      []savedExam
}

type savedExam struct {
	rows  map[string]string
	model *modelExam
}

const versions = 3

// content is one version of the exam.
func (h *examHistory) content(n int, sealed bool) catalog.Exam {
	exam := catalogtest.Clone(catalogtest.SampleExam())
	exam.Key = h.key
	exam.Papers[0].Questions[0].Prompt = fmt.Sprintf("content %d", n)
	if sealed {
		exam = catalogtest.Seal(h.t, exam)
	}
	return exam
}

func claimOf(name string) catalog.Claim {
	return catalog.Claim{Cluster: "test", Namespace: "exams", Name: name}
}

func drawClaimant(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"first", "second", "third"}).Draw(rt, "claimant")
}

// publish plays one Publish and compares its answer with the model's. sealed is false if the seal gate refuses the content.
func (h *examHistory) publish(rt *rapid.T, claimant string, exam catalog.Exam, next modelRevision, sealed bool) {
	h.clock = h.clock.Add(2 * time.Hour)
	options := catalog.Options{
		Adopt: rapid.Bool().Draw(rt, "adopt"), HistoryLimit: rapid.IntRange(0, 3).Draw(rt, "limit"),
		Remembered: h.remembered[claimant],
	}
	published, err := h.try(h.t, claimOf(claimant), exam, next.restored, options)
	if owner := h.model.conflict(claimant, options.Adopt); owner != "" {
		delete(h.remembered, claimant)
		conflict, ok := errors.AsType[*catalog.ClaimConflictError](err)
		if !ok || conflict.Owner != claimOf(owner) {
			rt.Fatalf("got %v, want a ClaimConflictError of %s", err, owner)
		}
		return
	}
	if ok, unowned := h.model.rollsBack(next.restored, options.Remembered.Revision); next.restored > 0 && !ok {
		if missing, ok := errors.AsType[*catalog.RevisionNotFoundError](err); !ok || missing.Unowned != unowned {
			rt.Fatalf("got %v, want a RevisionNotFoundError, unowned %v", err, unowned)
		}
		return
	}
	if !sealed {
		h.refused(rt, claimant, err)
		return
	}
	revision, changed := h.model.publish(claimant, next, options.Remembered.Revision, options.HistoryLimit)
	if err != nil || published.Revision != revision || published.Changed != changed {
		rt.Fatalf("got revision %d, changed %v, %v; want revision %d, changed %v", published.Revision, published.Changed, err, revision, changed)
	}
	h.remembered[claimant] = catalog.Remembered{Revision: published.Revision, PublishedAt: published.PublishedAt}
}

func (h *examHistory) refused(rt *rapid.T, claimant string, err error) {
	owner, unclaimed := h.model.declareUnsealed(claimant)
	refusal, ok := errors.AsType[*catalog.SealError](err)
	if !ok || refusal.Unclaimed != unclaimed || (refusal.Owner != nil) != (owner != "") || owner != "" && *refusal.Owner != claimOf(owner) {
		rt.Fatalf("got %#v (%v), want a SealError with the owner %q, unclaimed %v", refusal, err, owner, unclaimed)
	}
	if (owner != "" || unclaimed) && len(refusal.Changes) > 0 {
		rt.Fatalf("a claimant that does not own the key sees %v", refusal.Changes)
	}
}

func (h *examHistory) declare(rt *rapid.T) {
	n, sealed := rapid.IntRange(1, versions).Draw(rt, "content"), rapid.IntRange(0, 3).Draw(rt, "seal") > 0
	h.publish(rt, drawClaimant(rt), h.content(n, sealed), modelRevision{content: n}, sealed)
}

func (h *examHistory) pin(rt *rapid.T) {
	pin := rapid.Int64Range(1, h.model.revision+1).Draw(rt, "pin")
	next := modelRevision{content: h.model.revisions[pin].content, restored: pin}
	h.publish(rt, drawClaimant(rt), h.content(1, false), next, true)
}

func (h *examHistory) release(rt *rapid.T) {
	claimant, withdraw := drawClaimant(rt), rapid.Bool().Draw(rt, "withdraw")
	if err := h.publisher.Release(h.t.Context(), claimOf(claimant), h.key, withdraw); err != nil {
		rt.Fatal(err)
	}
	h.model.release(claimant, withdraw)
	delete(h.remembered, claimant)
}

// tables returns the tables of an exam, each after the tables that it refers to.
func tables() []string {
	return []string{"exams", "exam_revisions", "paper_revisions", "paper_answer_keys", "exam_revision_papers", "exam_repairs"}
}

func (h *examHistory) save(*rapid.T) {
	rows := map[string]string{}
	for _, table := range tables() {
		rows[table] = testkit.Get[string](h.t, h.pool,
			"SELECT coalesce(json_agg(t ORDER BY t::text), '[]')::text FROM "+table+" t WHERE exam_key = $1", h.key)
	}
	h.saved = append(h.saved, savedExam{rows, h.model.clone()})
}

// restore puts the rows of a backup in the place of today's. The claimants keep what they remember.
func (h *examHistory) restore(rt *rapid.T) {
	if len(h.saved) == 0 {
		rt.Skip("there is no backup yet")
	}
	backup := rapid.SampledFrom(h.saved).Draw(rt, "backup")
	for _, table := range slices.Backward(tables()) {
		testkit.Exec(h.t, h.pool, "DELETE FROM "+table+" WHERE exam_key = $1", h.key)
	}
	for _, table := range tables() {
		//nolint:unqueryvet // whole rows
		testkit.Exec(h.t, h.pool, "INSERT INTO "+table+" SELECT * FROM json_populate_recordset(NULL::"+table+", $1::text::json)", backup.rows[table])
	}
	h.model = backup.model.clone()
}

// compare holds the rows against the model.
func (h *examHistory) compare(rt *rapid.T) {
	found := &modelExam{revisions: map[int64]modelRevision{}}
	for _, row := range testkit.List[string](h.t, h.pool,
		"SELECT concat_ws(' ', revision, withdrawn::int, claim_name) FROM exams WHERE exam_key = $1", h.key) {
		withdrawn := 0
		_, _ = fmt.Sscan(row, &found.revision, &withdrawn, &found.owner) // the owner can be missing
		found.withdrawn = withdrawn == 1
	}
	for _, row := range testkit.List[string](h.t, h.pool,
		"SELECT concat_ws(' ', revision, coalesce(restored_from, 0), encode(digest, 'hex')) FROM exam_revisions WHERE exam_key = $1", h.key) {
		var number, restored int64
		var digest []byte
		if _, err := fmt.Sscanf(row, "%d %d %x", &number, &restored, &digest); err != nil {
			rt.Fatalf("%s: %v", row, err)
		}
		found.revisions[number] = modelRevision{h.digests[catalog.Digest(digest)], restored}
	}
	if found.owner != h.model.owner || found.revision != h.model.revision || found.withdrawn != h.model.withdrawn ||
		!maps.Equal(found.revisions, h.model.revisions) {
		rt.Fatalf("the rows say %+v, the model %+v", *found, *h.model)
	}
	if _, err := catalogtest.Audit(h.t.Context(), h.pool, h.key); err != nil {
		rt.Fatal(err)
	}
}

// TestHistoriesOfAnExamGoAsTheModelSays plays random histories of declarations, refusals, publications, pins, adoptions, deletions and
// restored backups in production. In the model a key has one owner, and a refused claimant changes nothing. A claim on a served exam
// needs sealed papers; a roll-back has none. A number is not used twice. Pruning keeps the newest revisions and the one that was restored.
func TestHistoriesOfAnExamGoAsTheModelSays(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Production)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		h := &examHistory{
			bench: b, t: t, key: fmt.Sprintf("xx-history-%d", n), clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			model:      &modelExam{revisions: map[int64]modelRevision{}},
			remembered: map[string]catalog.Remembered{}, digests: map[catalog.Digest]int{},
		}
		b.publisher.SetClock(func() time.Time { return h.clock })
		for content := range versions {
			identity, err := catalog.Identify(catalogtest.Valid(t, h.content(content+1, true)))
			check.NoError(t, err)
			h.digests[identity.Digest] = content + 1
		}
		rt.Repeat(map[string]func(*rapid.T){
			"declare": h.declare, "declare again": h.declare, "pin": h.pin, "release": h.release, "save": h.save, "restore": h.restore,
			"": h.compare,
		})
	})
}
