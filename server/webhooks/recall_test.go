package webhooks

import (
	"net/http"
	"testing"

	"examprep.dev/server/testkit"
)

// Left alone, what was put off would come back later than these tests wait.

func TestWhatWasPutOffIsRecalledWhenItsReceiverAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// meanwhile is what else becomes of what was put off.
		meanwhile func(*testing.T, *bench, *Worker)
	}{
		{"long before it would come back", func(*testing.T, *bench, *Worker) {}},
		{"while it is about to come back", func(t *testing.T, b *bench, w *Worker) {
			t.Helper()
			testkit.Exec(t, b.pool, "UPDATE webhook_deliveries SET relay_at = now() + make_interval(secs => $1) WHERE parked", w.holdTime().Seconds()/2)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			release := make(chan struct{})
			r := testkit.StartReceiver(t, func(int, http.ResponseWriter, *http.Request) { <-release })
			_, endpoint := b.endpoint(t, r.URL)
			const events = 3 * maxUntriedLane
			b.fill(t, endpoint.ID, events)
			w := b.worker(t, r)
			w.patient()
			testkit.Run(t, w.Run)
			b.until(t, events-maxUntriedLane-firstWindow, putOff)
			c.meanwhile(t, b, w)
			close(release)
			b.until(t, events, inState, "delivered")
			if n := len(r.Arrived); n != events {
				t.Errorf("%d requests for %d events", n, events)
			}
		})
	}
}

func TestWhatOneWorkerPutOffIsRecalledByAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	r := testkit.StartReceiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n <= firstWindow {
			<-release
		}
	})
	_, endpoint := b.endpoint(t, r.URL)
	const events = 2 * maxUntriedLane
	b.fill(t, endpoint.ID, events)
	first, second := b.worker(t, r), b.worker(t, r)
	first.patient()
	second.patient()
	testkit.Run(t, first.Run)
	b.until(t, events-maxUntriedLane-firstWindow, putOff)
	testkit.Eventually(t, "the first worker has told of it", func() bool {
		behind, err := first.stream.shareBehind(t.Context(), nil, nil)
		return err == nil && len(behind) == 1
	})
	testkit.Run(t, second.Run)
	b.until(t, events-maxUntriedLane-firstWindow, inState, "delivered") // the first still has the others
	close(release)
	b.until(t, events, inState, "delivered")
}

// patient lets receivers think for longer than these tests wait.
func (w *Worker) patient() {
	w.cfg.Timeout, w.sender.timeout = 2*patience, 2*patience
	w.lanes.leastPark = 2 * w.holdTime()
}

// putOff counts what is in no worker's hands.
const putOff = "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND relay_at > now() + interval '100 seconds'"
