package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/server/catalog"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
)

const (
	examKey = "bench-exam"
	account = "bench"
	tier    = "bench"
	// keyCount is how many keys take turns.
	keyCount = 1000
	// questionsPerPaper is a usual paper's length, overviewSize the size of the measured answer.
	questionsPerPaper = 100
	overviewSize      = 4096
)

// words are what texts are made of: as much variety as prose has, for compression's sake.
var words = strings.Fields(`of the reaction with following angle which force between triangle mass is velocity a cell
statement correct about energy given are plant number two solution when equal membrane ratio in density and conductor
temperature to value acid at function minimum water from root enzyme maximum current by metal each sphere most`)

// prose is so many words.
func prose(chance *rand.Rand, count int) string {
	text := make([]string, count)
	for i := range text {
		text[i] = words[chance.IntN(len(words))]
	}
	return strings.Join(text, " ")
}

// exam makes an exam of so many papers. The same key gives the same exam.
func exam(key string, seed uint64, papers int) catalog.Exam {
	chance := rand.New(rand.NewPCG(seed, 0))
	made := catalog.Exam{
		Key: key, Name: "Benchmark exam", Category: "bench", Country: "Spain", CountryCode: "ES", DurationMinutes: 180,
		Sections: []catalog.Section{{Name: "All", DurationMinutes: 180, Questions: questionsPerPaper}},
	}
	var rules []string
	for size := 300; size < overviewSize; {
		next := prose(chance, 20)
		rules = append(rules, next)
		size += len(next) + len(`"",`)
	}
	made.Scoring, _ = json.Marshal(map[string]any{"rules": rules}) //nolint:errchkjson // strings always encode
	for p := range papers {
		made.Papers = append(made.Papers, paper(chance, fmt.Sprintf("%s-%04d", key, p)))
	}
	return made
}

func paper(chance *rand.Rand, id string) catalog.Paper {
	made := catalog.Paper{
		ID: id, Title: "Paper " + id, Subject: "all", Year: 2024, Language: "en",
		Marking:    &catalog.Marking{Correct: 4, Incorrect: -1},
		Provenance: catalog.Provenance{Publisher: "bench", SourceURL: "https://example.com/" + id, License: "CC0-1.0"},
	}
	for n := range questionsPerPaper {
		made.Questions = append(made.Questions, catalog.Question{
			Section: 1, Number: n + 1, Prompt: prose(chance, 30), Explanation: prose(chance, 20), Page: n/5 + 1,
			Options: map[string]string{"A": prose(chance, 4), "B": prose(chance, 4), "C": prose(chance, 4), "D": prose(chance, 4)},
			Answer:  catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{string(rune('A' + chance.IntN(4)))}},
		})
	}
	return made
}

// silent is a notifier for a time when nobody listens, and an announcer for a time when no gate runs.
type silent struct{}

func (silent) Notify() {}

func (silent) Announce(context.Context, ...keys.Record) error { return nil }

// prepareAPI publishes an exam, makes keys that never run dry, and starts the API; once.
func (s *stack) prepareAPI(ctx context.Context) error {
	if s.api != "" {
		return nil
	}
	s.say("publishing an exam and making %d keys", keyCount)
	claim := catalog.Claim{Cluster: "bench", Namespace: "bench", Name: examKey}
	publisher := catalog.NewPublisher(s.pool, postgres.Sandbox, silent{})
	if _, err := publisher.Publish(ctx, claim, exam(examKey, 0, 1), catalog.Options{}); err != nil {
		return err
	}
	store := keys.NewStore(s.pool, silent{})
	if err := store.ApplyTier(ctx, keys.TierSpec{Name: tier, Requests: 1_000_000, Period: time.Second, Accounts: []string{account}}); err != nil {
		return err
	}
	s.keys = make([]string, keyCount)
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range s.keys {
		group.Go(func() error {
			issued, err := store.Create(within, keys.NewKey{Account: account, Tier: tier})
			s.keys[i] = issued.Key
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.startAPI(ctx)
}

// forgeKey makes a key's text: the first eight digits are the number's, so that no two have the same prefix.
func forgeKey(number uint32, random [2]uint64) string {
	body := fmt.Sprintf("%s%08x%016x%016x", keys.Scheme, number, random[0], random[1])
	return fmt.Sprintf("%s%08x", body, crc32.ChecksumIEEE([]byte(body)))
}
