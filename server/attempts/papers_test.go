package attempts

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/read"
)

// shelf is a catalogue in memory: what the engine reads, with every revision of every paper.
type shelf struct {
	mu     sync.Mutex
	exams  map[string]map[string][]*edition // exam key → paper id → revisions, the published one last
	hidden map[[2]string]bool               // exam key and paper id, or "": what is no longer published
}

// edition is one revision of a paper.
type edition struct {
	revision *read.PaperRevision
	key      *catalog.AnswerKey
}

func newShelf(exams ...string) *shelf {
	s := &shelf{exams: map[string]map[string][]*edition{}, hidden: map[[2]string]bool{}}
	for _, exam := range exams {
		s.exams[exam] = map[string][]*edition{}
	}
	return s
}

// restock empties the shelf, but for exams without papers.
func (s *shelf) restock(exams ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := newShelf(exams...)
	s.exams, s.hidden = fresh.exams, fresh.hidden
}

// publish puts a revision on the shelf; an exam that is not there yet, or no longer, is put there too.
func (s *shelf) publish(exam, paperID string, minutes int, key catalog.AnswerKey) *edition {
	s.mu.Lock()
	defer s.mu.Unlock()
	key.ExamKey = exam
	content, err := json.Marshal(key)
	if err != nil {
		panic(err) // the test's own constant
	}
	if s.exams[exam] == nil {
		s.exams[exam] = map[string][]*edition{}
	}
	before := s.exams[exam][paperID]
	key.Digest = sha256.Sum256(fmt.Appendf(content, "%s/%s/%d/%d", exam, paperID, minutes, len(before)))
	made := &edition{key: &key, revision: &read.PaperRevision{
		ExamKey: exam, PaperID: paperID, Digest: key.Digest, DurationMinutes: minutes,
	}}
	for _, q := range key.Keys {
		made.revision.Questions = append(made.revision.Questions,
			fmt.Appendf(nil, `{"answer_id":"%d:%d","prompt":"revision %d"}`, q.Section, q.Number, len(before)))
	}
	s.exams[exam][paperID] = append(before, made)
	delete(s.hidden, [2]string{exam, paperID})
	delete(s.hidden, [2]string{exam})
	return made
}

// withdraw takes a paper off the shelf, or the whole exam where paperID is "". Revisions stay for those who opened them.
func (s *shelf) withdraw(exam, paperID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden[[2]string{exam, paperID}] = true
}

// served returns the papers of an exam, nil unless it is published. The caller holds the lock.
func (s *shelf) served(exam string) map[string][]*edition {
	if s.hidden[[2]string{exam}] {
		return nil
	}
	return s.exams[exam]
}

func (s *shelf) Overview(exam string) (read.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served(exam) == nil {
		return read.Document{}, &catalog.NotFoundError{What: "exam", Name: exam}
	}
	return read.Document{}, nil
}

func (s *shelf) MarkOpened(_ context.Context, exam string, digest catalog.Digest) error {
	_, err := s.find(exam, digest)
	return err
}

func (s *shelf) Paper(_ context.Context, exam, paperID string) (*read.PaperRevision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	papers := s.served(exam)
	if papers == nil {
		return nil, &catalog.NotFoundError{What: "exam", Name: exam}
	}
	editions := papers[paperID]
	if len(editions) == 0 || s.hidden[[2]string{exam, paperID}] {
		return nil, &catalog.NotFoundError{What: "paper", Name: paperID}
	}
	return editions[len(editions)-1].revision, nil
}

func (s *shelf) find(exam string, digest catalog.Digest) (*edition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, editions := range s.exams[exam] {
		for _, e := range editions {
			if e.revision.Digest == digest {
				return e, nil
			}
		}
	}
	return nil, &catalog.NotFoundError{What: "revision", Name: digest.String()}
}

func (s *shelf) Revision(_ context.Context, exam string, digest catalog.Digest) (*read.PaperRevision, error) {
	e, err := s.find(exam, digest)
	if err != nil {
		return nil, err
	}
	return e.revision, nil
}

func (s *shelf) AnswerKey(_ context.Context, exam string, digest catalog.Digest) (*marking.Key, error) {
	e, err := s.find(exam, digest)
	if err != nil {
		return nil, err
	}
	prepared, _ := marking.Prepare(e.key)
	return prepared, nil
}

func (s *shelf) HasOtherRevisions(exam, paperID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.exams[exam][paperID]) > 1 || s.served(exam) == nil || s.hidden[[2]string{exam, paperID}]
}

func (*shelf) Current(string) bool { return true }
