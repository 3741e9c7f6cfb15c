package webhooks

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"examprep.dev/server/testkit"
)

func TestAnOutageIsToldOnceWhenItBeginsAndOnceWhenItIsOver(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Unix(0, 0)
	o := newOutages(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), func() time.Time { return now })
	refused := errors.New("refused")

	o.worked(t.Context(), "reading")
	for range 1000 {
		o.failed(t.Context(), "reading", refused)
		now = now.Add(time.Second)
	}
	o.failed(t.Context(), "writing", refused)
	now = now.Add(time.Minute)
	o.worked(t.Context(), "reading")
	o.worked(t.Context(), "reading")
	o.failed(t.Context(), "reading", refused)

	const want = `level=WARN msg="a store did not answer; trying until it does" doing=reading error=refused
level=WARN msg="a store did not answer; trying until it does" doing=writing error=refused
level=INFO msg="a store answers again" doing=reading away=17m40s failures=1000
level=WARN msg="a store did not answer; trying until it does" doing=reading error=refused
`
	if got := log.String(); got != want {
		t.Errorf("logged\n%s\nwant\n%s", got, want)
	}
}

func TestASecretThatPostgresCouldNotBeAskedForWaitsForNoKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, endpoint := b.endpoint(t, "https://127.0.0.1:1/")
	w := b.worker(t)
	restore := testkit.CutOff(t, b.pool)
	_, err := w.secrets.get(t.Context(), endpoint.ID, endpoint.CreatedAt)
	if delay := w.unreadable(endpoint.ID, err); err == nil || delay != retryPause {
		t.Errorf("waits %s after %v", delay, err)
	}
	restore()
	if _, err := w.secrets.get(t.Context(), endpoint.ID, endpoint.CreatedAt); err != nil {
		t.Error(err)
	}
}
