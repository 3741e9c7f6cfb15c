package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// A step is one request to the attempts of a key, with its answer.
type step struct {
	// kind is open, submit or history.
	kind string
	// number is the sequence number of an attempt that was opened.
	number int
	// id is the attempt that was opened or is submitted; letter is what it is submitted with.
	id, letter string
	// accepted tells whether a submission was answered 200.
	accepted bool
	// listed is the history's "id state" lines, newest first, and total its total.
	listed []string
	total  int
}

// An openedAttempt is an attempt as the register of a key's attempts holds it; letter is "" until it was submitted.
type openedAttempt struct{ id, letter string }

// attemptsModel is the attempts of a key as one register: each request must look as if it happened at one instant
// between its call and its answer.
func attemptsModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return []openedAttempt(nil) },
		Step: func(before, _, output any) (bool, any) {
			state, _ := before.([]openedAttempt)
			done, _ := output.(step)
			switch done.kind {
			case "open":
				return done.number == len(state)+1, append(slices.Clip(state), openedAttempt{id: done.id})
			case "submit":
				return submitStep(state, done)
			default:
				return done.total == len(state) && slices.Equal(done.listed, linesOf(state)), state
			}
		},
		Equal: func(a, b any) bool {
			left, _ := a.([]openedAttempt)
			right, _ := b.([]openedAttempt)
			return slices.Equal(left, right)
		},
	}
}

func submitStep(state []openedAttempt, done step) (bool, any) {
	at := slices.IndexFunc(state, func(o openedAttempt) bool { return o.id == done.id })
	switch {
	case at < 0:
		return false, state
	case state[at].letter == "":
		after := slices.Clone(state)
		after[at].letter = done.letter
		return done.accepted, after
	default:
		return done.accepted == (state[at].letter == done.letter), state
	}
}

func linesOf(state []openedAttempt) []string {
	lines := []string{}
	for _, o := range slices.Backward(state) {
		if o.letter == "" {
			lines = append(lines, o.id+" in_progress")
		} else {
			lines = append(lines, o.id+" submitted")
		}
	}
	return lines
}

func stepOf(sent step, answer response) (step, error) {
	switch {
	case sent.kind == "submit" && answer.status == http.StatusBadRequest:
		return sent, nil
	case answer.status != http.StatusOK:
		return sent, fmt.Errorf("%s: %d %s", sent.kind, answer.status, answer.body)
	case sent.kind == "submit":
		sent.accepted = true
		return sent, nil
	case sent.kind == "open":
		var opened struct {
			ID string `json:"attempt_id"`
		}
		err := json.Unmarshal([]byte(answer.body), &opened)
		sent.id = opened.ID
		return sent, err
	}
	var history struct {
		Attempts []struct {
			ID    string `json:"attempt_id"`
			State string `json:"state"`
		} `json:"attempts"`
		Total int `json:"total"`
	}
	err := json.Unmarshal([]byte(answer.body), &history)
	sent.total, sent.listed = history.Total, []string{}
	for _, attempt := range history.Attempts {
		sent.listed = append(sent.listed, attempt.ID+" "+attempt.State)
	}
	return sent, err
}

// A play is several clients of one key that open, submit each other's attempts and read history of one exam.
type play struct {
	*crowd
	exam string
	// clock is logical: it orders what does not overlap.
	clock atomic.Int64

	mu      sync.Mutex
	history []porcupine.Operation
	ids     []string
	// answers are the accepted submissions' answers, by id and letter.
	answers map[string]string
}

// next chooses what a client does in a round.
func (p *play) next(client, round int) step {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := step{kind: []string{"submit", "open", "history", "submit"}[(client+round)%4], letter: []string{"A", "B"}[(client+round/2)%2]}
	if len(p.ids) == 0 {
		next.kind = "open"
	}
	if next.kind == "submit" {
		next.id = p.ids[len(p.ids)-1-round%min(2, len(p.ids))]
	}
	return next
}

func (p *play) send(client int, next step) (response, error) {
	path := "/v1/exam-prep/" + p.exam + "/mock-exams/"
	switch next.kind {
	case "open":
		return p.call(client, http.MethodPost, path+"open", `{"paper_id":"`+p.exam+`-2023"}`)
	case "submit":
		return p.call(client, http.MethodPost, path+"submit", submissionOf(next.id, next.letter))
	default:
		return p.call(client, http.MethodGet, path+"history?limit=50", "")
	}
}

func (p *play) round(client, round int) error {
	next := p.next(client, round)
	call := p.clock.Add(1)
	answer, err := p.send(client, next)
	answered := p.clock.Add(1)
	if err != nil {
		return err
	}
	done, err := stepOf(next, answer)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history = append(p.history, porcupine.Operation{ClientId: client, Output: done, Call: call, Return: answered})
	if done.kind == "open" {
		p.ids = append(p.ids, done.id)
	}
	if !done.accepted {
		return nil
	}
	if before, told := p.answers[done.id+done.letter]; told && before != answer.body {
		return fmt.Errorf("told two things:\n%s\n%s", before, answer.body)
	}
	p.answers[done.id+done.letter] = answer.body
	return nil
}

// numberOpens adds the sequence numbers of attempts to their opens. They leave one order of all opens, so that a history of
// many clients is checked quickly.
func (p *play) numberOpens() {
	for i, operation := range p.history {
		if done, _ := operation.Output.(step); done.kind == "open" {
			done.number = testkit.Get[int](p.api.t, p.api.Pool, "SELECT key_seq FROM attempts WHERE id = $1", done.id)
			p.history[i].Output = done
		}
	}
}

func TestAttemptsOfAKeyAreLinearizable(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Exams: []catalog.Exam{sampleExam("exam-one"), sampleExam("exam-two"), sampleExam("exam-three")}})
	const clients, rounds = 12, 8 // enough that calls share batches
	c := a.crowd(clients)
	for _, exam := range []string{"exam-one", "exam-two", "exam-three"} {
		p := &play{crowd: c, exam: exam, answers: map[string]string{}}
		err := c.atOnce(func(client int) error {
			for round := range rounds {
				if err := p.round(client, round); err != nil {
					return err
				}
			}
			return nil
		})
		check.NoError(t, err)
		p.numberOpens()
		if !porcupine.CheckOperations(attemptsModel(), p.history) {
			t.Fatalf("no order explains:\n%v", p.history)
		}
		if len(p.answers) == 0 {
			t.Error("nothing was submitted")
		}
	}
}
