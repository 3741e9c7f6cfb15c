package crowdtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// Log opens a webhook receiver's log at a byte offset; nothing is there yet when it returns nil.
type Log func(ctx context.Context, offset int64) (io.ReadCloser, error)

// FileLog is a log on this machine.
func FileLog(path string) Log {
	return func(_ context.Context, offset int64) (io.ReadCloser, error) {
		file, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file, nil
	}
}

// HTTPLog is a log that its receiver serves.
func HTTPLog(client *http.Client, url string) Log {
	return func(ctx context.Context, offset int64) (io.ReadCloser, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		switch resp.StatusCode {
		case http.StatusPartialContent, http.StatusOK: // of an empty file there are no parts
			return resp.Body, nil
		case http.StatusRequestedRangeNotSatisfiable: // nothing was written since
			return nil, resp.Body.Close()
		default:
			return nil, errors.Join(fmt.Errorf("%s: %s", url, resp.Status), resp.Body.Close())
		}
	}
}

// Receiver reads what a webhook receiver has written down. It belongs to one goroutine.
type Receiver struct {
	// Updates are the exam.content_updated that arrived.
	Updates []ContentUpdated

	log      Log
	contract *Contract
	// offset is how far the log has been read: whole lines only.
	offset int64
	// seen are the verified events so far; rejected counts deliveries whose signature was wrong.
	seen     map[eventKey]int
	rejected int
}

// NewReceiver returns the reader of a log that holds every delivery against the contract.
func NewReceiver(log Log, contract *Contract) *Receiver {
	return &Receiver{log: log, contract: contract, seen: map[eventKey]int{}}
}

// eventKey is the pair that a receiver deduplicates on (docs/spec.md, part 6).
type eventKey struct{ event, attempt string }

// ContentUpdated is the data of exam.content_updated.
type ContentUpdated struct {
	ExamKey  string   `json:"exam_key"`
	PaperIDs []string `json:"paper_ids"`
	Version  int64    `json:"content_version"`
}

// Forget drops what was received up to now.
func (r *Receiver) Forget(t *testing.T) {
	t.Helper()
	r.Read(t)
	r.seen, r.Updates, r.rejected = map[eventKey]int{}, nil, 0
}

// Read takes in what was received since the last call.
func (r *Receiver) Read(t *testing.T) {
	t.Helper()
	text, err := r.log(t.Context(), r.offset)
	check.NoError(t, err)
	if text == nil {
		return
	}
	defer func() { _ = text.Close() }()
	for lines := bufio.NewReader(text); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // the rest of the line is still being written
		}
		r.offset += int64(len(line))
		r.take(t, line)
	}
}

func (r *Receiver) take(t *testing.T, line []byte) {
	t.Helper()
	var delivery struct {
		Headers  map[string]string `json:"headers"`
		Body     string            `json:"body"`
		Verified bool              `json:"verified"`
	}
	decode(t, line, &delivery)
	if !delivery.Verified {
		r.rejected++
		return
	}
	var event struct {
		Event string          `json:"event"`
		Data  json.RawMessage `json:"data"`
	}
	decode(t, []byte(delivery.Body), &event)
	r.contract.delivery(event.Event, delivery.Headers, delivery.Body)
	if event.Event == "exam.content_updated" {
		var update ContentUpdated
		decode(t, event.Data, &update)
		r.Updates = append(r.Updates, update)
		return
	}
	var data struct {
		Attempt string `json:"attempt_id"`
	}
	decode(t, event.Data, &data)
	r.seen[eventKey{event.Event, data.Attempt}]++
}

// Await waits until every attempt was told of twice: submitted and scored. It gives up after two minutes
// without progress: what a killed worker held waits for the end of its lease.
func (r *Receiver) Await(t *testing.T, attempts []string) {
	t.Helper()
	const patience = 2 * time.Minute
	missing := map[eventKey]bool{}
	for _, attempt := range attempts {
		missing[eventKey{"mock_attempt.submitted", attempt}] = true
		missing[eventKey{"mock_attempt.scored", attempt}] = true
	}
	total, began := len(missing), time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for progress := time.Now(); ; <-tick.C {
		r.Read(t)
		before := len(missing)
		for key := range missing {
			if r.seen[key] > 0 {
				delete(missing, key)
			}
		}
		if len(missing) < before {
			progress = time.Now()
		}
		if len(missing) == 0 || time.Since(progress) > patience {
			break
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d events did not arrive", len(missing), total)
	}
	if r.rejected > 0 {
		t.Errorf("%d deliveries with a signature that does not verify", r.rejected)
	}
	t.Logf("%d events arrived (%d deliveries), the last %s after the run", total-len(missing), r.deliveries(), time.Since(began).Round(time.Second))
}

// deliveries counts what arrived, what arrived twice twice.
func (r *Receiver) deliveries() int {
	total := 0
	for _, times := range r.seen {
		total += times
	}
	return total
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	testkit.Decode(t, text, into)
}
