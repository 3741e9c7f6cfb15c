package attempts

import (
	"cmp"
	"slices"
	"sync"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// The model's calls of the engine, one by one and several at once. Those at once share batches. They have different attempts,
// so each answer follows from the model as if the call were alone.

// maxAtOnce is the maximum number of calls at once.
const maxAtOnce = 12

func (w *world) aPod(t *rapid.T) *Service { return rapid.SampledFrom(w.pods).Draw(t, "pod") }

// modelOpen is a call of Open.
type modelOpen struct {
	pod *Service
	who keys.Identity
	req OpenRequest
	got Opened
	err error
}

func (w *world) drawOpen(t *rapid.T) *modelOpen {
	o := &modelOpen{pod: w.aPod(t)}
	o.who, o.req.ExamKey, o.req.PaperID, o.req.LearnerID = w.someSheet(t)
	o.req.Offset, o.req.Limit = rapid.IntRange(0, 7).Draw(t, "offset"), rapid.IntRange(1, 20).Draw(t, "limit")
	return o
}

func (o *modelOpen) send(t *rapid.T) { o.got, o.err = o.pod.Open(t.Context(), o.who, o.req) }

// opensAtOnce opens several attempts. The model has them in the order of their sequence numbers.
func (w *world) opensAtOnce(t *rapid.T) {
	opens := make([]*modelOpen, rapid.IntRange(2, maxAtOnce).Draw(t, "opens"))
	var calls sync.WaitGroup
	for i := range opens {
		opens[i] = w.drawOpen(t)
	}
	for _, o := range opens {
		calls.Go(func() { o.send(t) })
	}
	calls.Wait()
	numbers := map[string]int64{}
	for _, o := range opens {
		if o.err == nil {
			numbers[o.got.AttemptID] = testkit.Get[int64](t, w.pool, "SELECT key_seq FROM attempts WHERE id = $1", uuid.MustParse(o.got.AttemptID))
		}
	}
	slices.SortStableFunc(opens, func(a, b *modelOpen) int { return cmp.Compare(numbers[a.got.AttemptID], numbers[b.got.AttemptID]) })
	for _, o := range opens {
		w.opened(t, o)
	}
	w.saw("open: at once")
}

// modelSubmit is a call of Submit.
type modelSubmit struct {
	pod     *Service
	attempt *modelAttempt
	by      claim
	status  State
	sheet   modelSheet
	got     Result
	err     error
}

func (w *world) drawSubmit(t *rapid.T, a *modelAttempt) *modelSubmit {
	status := rapid.SampledFrom([]State{"", StateSubmitted, StateSubmitted, StateExpired, StateAbandoned}).Draw(t, "status")
	return &modelSubmit{pod: w.aPod(t), attempt: a, by: w.claimant(t, a), status: status, sheet: drawSheet(t, a.edition.key)}
}

func (s *modelSubmit) send(t *rapid.T) {
	s.got, s.err = s.pod.Submit(t.Context(), s.by.who, SubmitRequest{
		ExamKey: s.by.exam, AttemptID: s.attempt.id, Status: s.status, LearnerID: s.by.learner, Answers: s.sheet.given,
	})
}

// submitsAtOnce submits several attempts.
func (w *world) submitsAtOnce(t *rapid.T) {
	if len(w.attempts) < 2 {
		return
	}
	var submits []*modelSubmit
	for _, a := range rapid.Permutation(w.attempts).Draw(t, "attempts")[:min(len(w.attempts), maxAtOnce)] {
		submits = append(submits, w.drawSubmit(t, a))
	}
	var calls sync.WaitGroup
	for _, s := range submits {
		calls.Go(func() { s.send(t) })
	}
	calls.Wait()
	for _, s := range submits {
		w.submitted(t, s)
	}
	w.saw("submit: at once")
}
