//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// receiver reads what the stack's webhook receiver has written down.
type receiver struct {
	path     string
	contract *contract
	// offset is how far the log has been read: whole lines only.
	offset int64
	// seen are the verified events so far; rejected counts deliveries whose signature was wrong.
	seen     map[eventKey]int
	updates  []contentUpdated
	rejected int
}

// eventKey is what a receiver de-duplicates on (specification, part 6).
type eventKey struct{ event, attempt string }

type contentUpdated struct {
	ExamKey  string   `json:"exam_key"`
	PaperIDs []string `json:"paper_ids"`
	Version  int64    `json:"content_version"`
}

// forget drops what was seen and begins at the log's present end.
func (r *receiver) forget(t *testing.T) {
	t.Helper()
	info, err := os.Stat(r.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	r.offset = 0
	if err == nil {
		r.offset = info.Size()
	}
	r.seen, r.updates, r.rejected = map[eventKey]int{}, nil, 0
}

// read takes in what was received since the last call.
func (r *receiver) read(t *testing.T) {
	t.Helper()
	file, err := os.Open(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(r.offset, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // the rest of the line is still being written
		}
		r.offset += int64(len(line))
		r.take(t, line)
	}
}

func (r *receiver) take(t *testing.T, line []byte) {
	t.Helper()
	var delivery struct {
		Headers  map[string]string `json:"headers"`
		Body     string            `json:"body"`
		Verified bool              `json:"verified"`
	}
	decode(t, string(line), &delivery)
	if !delivery.Verified {
		r.rejected++
		return
	}
	var event struct {
		Event string          `json:"event"`
		Data  json.RawMessage `json:"data"`
	}
	decode(t, delivery.Body, &event)
	r.contract.delivery(event.Event, delivery.Headers, delivery.Body)
	if event.Event == "exam.content_updated" {
		var update contentUpdated
		decode(t, string(event.Data), &update)
		r.updates = append(r.updates, update)
		return
	}
	var data struct {
		Attempt string `json:"attempt_id"`
	}
	decode(t, string(event.Data), &data)
	r.seen[eventKey{event.Event, data.Attempt}]++
}

// await waits until every attempt was told of twice: submitted and scored. It gives up after two minutes
// without progress: what a killed worker held waits for the end of its lease.
func (r *receiver) await(t *testing.T, attempts []string) {
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
		r.read(t)
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
	t.Logf("%d events arrived, the last %s after the run", total-len(missing), time.Since(began).Round(time.Second))
}
