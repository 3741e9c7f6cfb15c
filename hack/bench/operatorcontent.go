package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"examprep.dev/api/v1alpha1"
)

const (
	// paperCount papers of paperQuestions are in each ExamContent: some 85 KB, question for question as long as real ones.
	paperCount, paperQuestions = 5, 40
	// appliers is how many resources are applied at once.
	appliers  = 4
	applyTime = time.Minute
)

// applied is something that is sent to the API server.
type applied struct {
	path string
	text []byte
}

// declareExam returns what is declared of an exam: a ConfigMap with a chunk of questions for each paper, and the resource that
// refers to it. The same name gives the same.
func declareExam(name string, seed uint64) ([]applied, error) {
	content := examContent(name, seed, paperCount, paperQuestions)
	chunks := &corev1.ConfigMap{Data: map[string]string{}}
	chunks.APIVersion, chunks.Kind = "v1", "ConfigMap"
	chunks.Namespace, chunks.Name = contentNamespace, name
	chunks.Labels = map[string]string{v1alpha1.ContentLabel: "true"}
	if err := moveQuestions(content.Spec.Papers, chunks); err != nil {
		return nil, err
	}
	chunkText, err := json.Marshal(chunks)
	if err != nil {
		return nil, fmt.Errorf("encode a ConfigMap: %w", err)
	}
	text, err := encodeContent(content)
	if err != nil {
		return nil, err
	}
	return []applied{
		{path: "/api/v1/namespaces/" + contentNamespace + "/configmaps/" + name, text: chunkText},
		{path: contentsPath() + "/" + name, text: text},
	}, nil
}

// moveQuestions moves the questions of papers into chunks.
func moveQuestions(papers []v1alpha1.Paper, chunks *corev1.ConfigMap) error {
	for i := range papers {
		text, err := json.Marshal(papers[i].Questions)
		if err != nil {
			return fmt.Errorf("encode a chunk: %w", err)
		}
		key := fmt.Sprintf("paper-%d.json", i)
		chunks.Data[key] = string(text)
		papers[i].Questions = nil
		papers[i].QuestionsFrom = []v1alpha1.QuestionSource{{ConfigMapKeyRef: v1alpha1.ConfigMapKeyRef{Name: chunks.Name, Key: key}}}
	}
	return nil
}

// contentName is of the resource of that number.
func contentName(number int) string { return fmt.Sprintf("bench-%05d", number) }

// contentsPath is where the resources are.
func contentsPath() string {
	return "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + contentNamespace + "/examcontents"
}

// declared is what is declared of an exam, as it is sent.
func (c *cluster) declared(number int) ([]applied, error) {
	if all := c.prepared[number]; all != nil {
		return all, nil
	}
	return declareExam(contentName(number), uint64(number))
}

// prepare has the first exams declared before anybody waits for it: a repository has them as they are.
func (c *cluster) prepare(count int) error {
	prepared := make(map[int][]applied, count)
	for number := range count {
		all, err := c.declared(number)
		if err != nil {
			return err
		}
		prepared[number] = all
	}
	c.prepared = prepared
	return nil
}

// apply writes what is declared of an exam by server-side apply, as kubectl, Flux and Argo CD do.
func (c *cluster) apply(ctx context.Context, number int) error {
	all, err := c.declared(number)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := c.applyOne(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) applyOne(ctx context.Context, one applied) error {
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	url := c.address + one.path + "?fieldManager=bench&force=true"
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, bytes.NewReader(one.text))
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
