package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/api/v1alpha1"
)

const (
	contentNamespace = "bench"
	// inlinePapers of inlineQuestions are in each ExamContent: some 85 KB, question for question as long as real ones.
	inlinePapers, inlineQuestions = 5, 40
	// appliers is how many resources are applied at once.
	appliers  = 4
	applyTime = time.Minute
)

// examContent makes a resource, as it is sent to the API server. The same name gives the same resource.
func examContent(name string, seed uint64) ([]byte, error) {
	chance := rand.New(rand.NewPCG(seed, 1))
	content := v1alpha1.ExamContent{}
	content.APIVersion, content.Kind = v1alpha1.GroupVersion.String(), "ExamContent"
	content.Namespace, content.Name = contentNamespace, name
	content.Spec = v1alpha1.ExamContentSpec{
		ExamKey: name, Name: "Benchmark exam " + name, Category: "bench", Country: "Spain", CountryCode: "ES", DurationMinutes: 180,
		Sections: []v1alpha1.Section{{Name: "All", DurationMinutes: 180, Questions: inlineQuestions}},
	}
	for p := range inlinePapers {
		content.Spec.Papers = append(content.Spec.Papers, inlinePaper(chance, fmt.Sprintf("%s-%04d", name, p), int32(2020+p)))
	}
	var fields map[string]any // without the empty status, which is the operator's
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode a resource: %w", err)
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("encode a resource: %w", err)
	}
	delete(fields, "status")
	return json.Marshal(fields)
}

func inlinePaper(chance *rand.Rand, id string, year int32) v1alpha1.Paper {
	made := v1alpha1.Paper{
		PaperID: id, Title: "Paper " + id, Year: year, Language: "en",
		Marking:    &v1alpha1.Marking{Correct: 3, Incorrect: -1},
		Provenance: v1alpha1.Provenance{Publisher: "bench", SourceURL: "https://example.com/" + id, License: "CC0-1.0"},
	}
	for n := range inlineQuestions {
		made.Questions = append(made.Questions, v1alpha1.Question{
			Section: 1, Number: int32(n + 1), Prompt: prose(chance, 28), Page: int32(n/5 + 1),
			Options: map[string]string{"A": prose(chance, 6), "B": prose(chance, 6), "C": prose(chance, 6), "D": prose(chance, 6)},
			Answer:  v1alpha1.Answer{Choice: string(rune('A' + chance.IntN(4)))},
		})
	}
	return made
}

// contentName is of the resource of that number.
func contentName(number int) string { return fmt.Sprintf("bench-%05d", number) }

// contentsPath is where the resources are.
func contentsPath() string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + contentNamespace + "/examcontents"
}

// apply writes a resource by server-side apply, as kubectl, Flux and Argo CD do.
func (c *cluster) apply(ctx context.Context, number int) error {
	name := contentName(number)
	content, err := examContent(name, uint64(number))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	url := c.address + contentsPath() + "/" + name + "?fieldManager=bench&force=true"
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/apply-patch+yaml") // JSON is YAML
	// The answer tells of success; nobody reads the resource in it.
	request.Header.Set("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	response, err := c.admin.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = &statusError{response.StatusCode, string(answer[:min(len(answer), 500)])}
	}
	return err
}

// applyPatiently tries again where the API server says that it could not, yet.
func (c *cluster) applyPatiently(ctx context.Context, number int) error {
	for {
		err := c.apply(ctx, number)
		var refused *statusError
		if !errors.As(err, &refused) {
			return err
		}
		switch refused.status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		default:
			return err
		}
		if !wait(ctx, time.NewTimer(idlePoll), idlePoll) {
			return err
		}
	}
}

// applyAll applies the resources with numbers from first to before last.
func (c *cluster) applyAll(ctx context.Context, first, last int) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	next.Store(int64(first))
	for range appliers {
		group.Go(func() error {
			for {
				number := int(next.Add(1)) - 1
				if number >= last {
					return nil
				}
				if err := c.applyPatiently(ctx, number); err != nil {
					return fmt.Errorf("apply %s: %w", contentName(number), err)
				}
			}
		})
	}
	return group.Wait()
}
