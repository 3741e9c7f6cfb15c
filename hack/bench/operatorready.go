package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readiness follows which resources are Ready, as `kubectl get --watch` does: it is sent the printed columns and never a
// resource.
type readiness struct {
	mu sync.Mutex
	// since is when a resource was first seen Ready.
	since map[string]time.Time
	// changed is closed, and made anew, whenever a resource becomes Ready.
	changed chan struct{}
	failed  error
}

// watchReadiness follows until ctx ends.
func (c *cluster) watchReadiness(ctx context.Context) (*readiness, error) {
	r := &readiness{since: map[string]time.Time{}, changed: make(chan struct{})}
	stream, err := c.openWatch(ctx)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			r.read(stream)
			_ = stream.Close()
			if ctx.Err() != nil {
				return
			}
			// The API server ends watches now and then; the next begins with what there is.
			if stream, err = c.openWatch(ctx); err != nil {
				r.fail(err)
				return
			}
		}
	}()
	return r, nil
}

// openWatch tries again while the API server asks for that, as it does until it serves a kind that is new to it.
func (c *cluster) openWatch(ctx context.Context) (io.ReadCloser, error) {
	ticker := time.NewTicker(idlePoll)
	defer ticker.Stop()
	for {
		stream, err := c.tryWatch(ctx)
		var refused *statusError
		if !errors.As(err, &refused) || refused.status != http.StatusTooManyRequests {
			return stream, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (c *cluster) tryWatch(ctx context.Context) (io.ReadCloser, error) {
	url := c.address + contentsPath() + "?watch=true&includeObject=None"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := c.admin.Do(request)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("watch: %w", &statusError{response.StatusCode, ""})
	}
	return response.Body, nil
}

// read takes events until the stream ends, for whatever reason.
func (r *readiness) read(stream io.Reader) {
	decoder := json.NewDecoder(stream)
	name, ready := -1, -1
	for {
		var event struct {
			Type   string       `json:"type"`
			Object metav1.Table `json:"object"`
		}
		if decoder.Decode(&event) != nil {
			return
		}
		if columns := event.Object.ColumnDefinitions; len(columns) > 0 { // the first event tells
			place := func(wanted string) int {
				return slices.IndexFunc(columns, func(c metav1.TableColumnDefinition) bool { return c.Name == wanted })
			}
			name, ready = place("Name"), place("Ready")
		}
		for _, row := range event.Object.Rows {
			if name < 0 || ready < 0 || len(row.Cells) <= max(name, ready) || row.Cells[ready] != "True" {
				continue
			}
			if text, ok := row.Cells[name].(string); ok {
				r.note(text)
			}
		}
	}
}

func (r *readiness) note(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.since[name]; !known {
		r.since[name] = time.Now()
		r.wake()
	}
}

func (r *readiness) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
	r.wake()
}

func (r *readiness) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until the resources with numbers from first to before last are Ready, and returns when the last became so.
func (r *readiness) await(ctx context.Context, first, last int) (time.Time, error) {
	var latest time.Time
	for number := first; number < last; number++ {
		for {
			r.mu.Lock()
			at, ready := r.since[contentName(number)]
			changed, failed := r.changed, r.failed
			r.mu.Unlock()
			if failed != nil {
				return latest, failed
			}
			if ready {
				if at.After(latest) {
					latest = at
				}
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return latest, fmt.Errorf("%s is not Ready: %w", contentName(number), context.Cause(ctx))
			}
		}
	}
	return latest, nil
}
