package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
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
	// So that the baseline's key has all its attempts, and the learner his tenth.
	small, err := s.openDataset(ctx, "history_small", smallHistory*hotShare)
	if err != nil {
		return err
	}
	defer small.close(context.WithoutCancel(ctx), s)
	large, err := s.openDataset(ctx, "history_large", s.historyAttempts)
	if err != nil {
		return err
	}
	defer large.close(context.WithoutCancel(ctx), s)
	chance := rand.New(rand.NewPCG(1, 2))
	var asked []*askedPage
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
			asked = append(asked, &askedPage{name: kind.name, ofLearner: ofLearner, offset: kind.offset})
		}
	}
	if err := askInTurn(ctx, small, large, asked, 4*duration); err != nil {
		return err
	}
	for _, page := range asked {
		page.report(r, small, large)
	}
	return nil
}

// askedPage is one kind of page, and how long it took on both sides.
type askedPage struct {
	name         string
	ofLearner    bool
	offset       func(total int64) int64
	small, large sample
}

// total is how many attempts such a history has.
func (p *askedPage) total(d *dataset) int64 {
	if p.ofLearner {
		return d.attempts / hotShare / hotShare
	}
	return d.attempts / hotShare
}

// request is for a page of d, and returns how many attempts will be in it.
func (p *askedPage) request(d *dataset) ([]byte, int) {
	total := p.total(d)
	offset := p.offset(total)
	path := "/v1/exam-prep/" + examKey + "/mock-exams/history?limit=" + strconv.Itoa(historyPage) + "&offset=" + strconv.FormatInt(offset, 10)
	if p.ofLearner {
		path += "&learner_id=" + hotLearner
	}
	return getRequest(d.address, path, d.key), int(min(historyPage, total-offset))
}

func (p *askedPage) report(r *report, small, large *dataset) {
	whose := "of the key"
	if p.ofLearner {
		whose = "of a learner"
	}
	what := fmt.Sprintf("history %s, %s", whose, p.name)
	r.row(fmt.Sprintf("%s: %d of %d", what, p.total(large), large.attempts), &p.large)
	r.row(fmt.Sprintf("  the same: %d of %d", p.total(small), small.attempts), &p.small)
	for _, share := range []float64{0.5, 0.99} {
		r.judge(verdict{
			what: fmt.Sprintf("%s: p%.0f among many / among few", what, share*100), unit: "×", bar: 2,
			measured: p.large.percentile(share).Seconds() / p.small.percentile(share).Seconds(),
		})
	}
}

// askInTurn asks both pods for every kind of page, in turn, over one connection each. The first round warms both up and
// does not count; "any page" is a new one each time, and so never warm.
func askInTurn(ctx context.Context, small, large *dataset, asked []*askedPage, duration time.Duration) error {
	few, err := dialAsker(ctx, small.address)
	if err != nil {
		return err
	}
	defer few.conn.Close()
	many, err := dialAsker(ctx, large.address)
	if err != nil {
		return err
	}
	defer many.conn.Close()
	for began, round := time.Now(), 0; time.Since(began) < duration; round++ {
		for _, page := range asked {
			for _, side := range []struct {
				asker *asker
				data  *dataset
				into  *sample
			}{{few, small, &page.small}, {many, large, &page.large}} {
				request, want := page.request(side.data)
				took, err := side.asker.ask(ctx, request, want, page.total(side.data))
				if err != nil {
					return fmt.Errorf("%s of %s: %w", page.name, side.data.name, err)
				}
				if round > 0 {
					side.into.operations++
					side.into.elapsed += took
					side.into.latencies = append(side.into.latencies, took)
				}
			}
		}
	}
	return nil
}

// asker is one connection that asks for one page after another.
type asker struct {
	conn     net.Conn
	received []byte
}

func dialAsker(ctx context.Context, address string) (*asker, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &asker{conn: conn, received: make([]byte, 64<<10)}, nil
}

// ask wants so many attempts and that total, and returns how long the answer took.
func (a *asker) ask(ctx context.Context, request []byte, attempts int, total int64) (time.Duration, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(answerTime)
	}
	if err := a.conn.SetDeadline(deadline); err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := a.conn.Write(request); err != nil {
		return 0, err
	}
	status, body, err := a.read()
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	if status != http.StatusOK {
		return 0, &statusError{status, string(body)}
	}
	end := `"total":` + strconv.FormatInt(total, 10) + "}"
	if got := bytes.Count(body, []byte(`"attempt_id"`)); got != attempts || !bytes.HasSuffix(body, []byte(end)) {
		return 0, fmt.Errorf("%d attempts where %d are due, or not %s: %.200s", got, attempts, end, body)
	}
	return took, nil
}

// read takes one answer off the connection; the next call uses its body's memory again.
func (a *asker) read() (status int, body []byte, err error) {
	for length := 0; ; {
		if length == len(a.received) {
			a.received = append(a.received, make([]byte, length)...)
		}
		n, err := a.conn.Read(a.received[length:])
		if err != nil {
			return 0, nil, err
		}
		length += n
		if status, body, whole, err := parseAnswer(a.received[:length]); whole || err != nil {
			return status, body, err
		}
	}
}
