package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	// smallHistory is how many attempts the baseline's key has; historyPage how many are asked for, the most there may be.
	smallHistory = 1000
	historyPage  = 50
)

// measureHistory compares pages of a history of very many attempts with those of a history of few. Two pods, each on a
// database of its own in the same PostgreSQL, are asked the same in turn, request by request.
func measureHistory(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	const few = smallHistory * hotShare // so that the baseline's key has all its attempts, and the learner a tenth of them
	return s.compareDatasets(ctx, "history", few, s.historyAttempts, s.fillAttempts, func(small, large *dataset) error {
		asked := historyRequests()
		if err := askInTurn(ctx, small, large, asked, 4*duration); err != nil {
			return err
		}
		for _, c := range asked {
			c.report(r, small, large)
		}
		return nil
	})
}

// historyRequests are for each kind of page, of the key's history and of the learner's.
func historyRequests() (asked []*comparison) {
	chance := rand.New(rand.NewPCG(1, 2))
	for _, ofLearner := range []bool{false, true} {
		for _, kind := range []struct {
			name   string
			offset func(total int64) int64
		}{
			{"first page", func(int64) int64 { return 0 }},
			{"middle page", func(total int64) int64 { return total / 2 }},
			{"any page", func(total int64) int64 { return chance.Int64N(total - historyPage) }},
			{"last page", func(total int64) int64 { return total - historyPage }},
			{"total alone", func(total int64) int64 { return total }},
		} {
			page := historyPages{ofLearner, kind.offset}
			asked = append(asked, &comparison{name: "history " + page.whose() + ", " + kind.name, request: page.request, size: page.size})
		}
	}
	return asked
}

// historyPages are pages of the history of a key, or of a learner. "any page" is a new one each time, and so never warm.
type historyPages struct {
	ofLearner bool
	offset    func(total int64) int64
}

func (p historyPages) whose() string {
	if p.ofLearner {
		return "of a learner"
	}
	return "of the key"
}

// total is how many attempts such a history has.
func (p historyPages) total(d *dataset) int64 {
	if p.ofLearner {
		return d.size / hotShare / hotShare
	}
	return d.size / hotShare
}

func (p historyPages) size(d *dataset) string { return fmt.Sprintf("%d of %d", p.total(d), d.size) }

// request is for a page of d; its answer has the page's attempts and their total.
func (p historyPages) request(d *dataset) ([]byte, func(body []byte) error) {
	total := p.total(d)
	offset := p.offset(total)
	path := "/v1/exam-prep/" + examKey + "/mock-exams/history?limit=" + strconv.Itoa(historyPage) + "&offset=" + strconv.FormatInt(offset, 10)
	if p.ofLearner {
		path += "&learner_id=" + hotLearner
	}
	return getRequest(d.address, path, d.key), func(body []byte) error {
		attempts, end := int(min(historyPage, total-offset)), `"total":`+strconv.FormatInt(total, 10)+"}"
		if got := bytes.Count(body, []byte(`"attempt_id"`)); got != attempts || !bytes.HasSuffix(body, []byte(end)) {
			return fmt.Errorf("%d attempts where %d are due, or not %s: %.200s", got, attempts, end, body)
		}
		return nil
	}
}
