package catalog

import (
	"context"
	"slices"
	"testing"
	"time"

	"examprep.dev/server/postgres/catalogdb"
	"examprep.dev/server/testkit/check"
)

// The tests are in package catalog_test, as they import packages that import this one.
const ShownChanges = shownChanges

func ComparePapers(old, next *Paper) []Change { return comparePapers(old, next) }

func CompareExams(old, next Exam) []Change { return compareExams(old, next) }

func PaperRevisionDigest(seal Digest, durationMinutes int, scoring Scoring) (Digest, error) {
	return paperRevisionDigest(seal, durationMinutes, scoring)
}

func SameJSON(a, b any) bool { return sameJSON(a, b) }

func (p Paper) Canonical() ([]byte, error) { return p.canonical() }

// SetClock replaces the publisher's clock.
func (p *Publisher) SetClock(now func() time.Time) { p.now = now }

// StoredPaper reads a published paper and its stored seal digest.
func (p *Publisher) StoredPaper(ctx context.Context, t *testing.T, examKey, paperID string) (paper *Paper, seal Digest, err error) {
	t.Helper()
	current, err := p.state(ctx, examKey)
	check.NoError(t, err)
	q := catalogdb.New(p.pool)
	content, err := readable(ctx, q, examKey, current.revision)
	check.NoError(t, err)
	i := slices.IndexFunc(content.papers, func(p paperRef) bool { return p.PaperID == paperID })
	if i < 0 {
		t.Fatalf("paper %s is not published", paperID)
	}
	paper, err = loadPaper(ctx, q, examKey, content.papers[i])
	return paper, content.papers[i].Seal, err
}
