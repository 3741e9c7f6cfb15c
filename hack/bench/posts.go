package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/server/webhooks"
)

// windowSize is how many deliveries a worker has in flight to each of the endpoints of a backlog: each may hold an eighth
// of the places, of 1,024, that the others leave.
const windowSize = 85

// posts is the baseline of deliveries: the same request to the same receiver with the same client settings as a worker's,
// signed each time, and nothing read or written for it.
type posts struct {
	outbox *outbox
	client *http.Client
	event  webhooks.Event
	secret string
}

func (o *outbox) newPosts() (*posts, error) {
	event, err := scoredEvent(examKey + "-0000")
	if err != nil {
		return nil, err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true) // as the worker
	return &posts{
		outbox: o, event: event, secret: webhooks.NewSecret(),
		client: &http.Client{Timeout: answerTime, Transport: &http.Transport{
			TLSClientConfig: o.stack.certificate.trust(), Protocols: &protocols, DisableCompression: true, MaxIdleConnsPerHost: windowSize,
		}},
	}, nil
}

// measure posts for a while, as many at once as a worker can.
func (p *posts) measure(ctx context.Context, duration time.Duration) (sample, error) {
	w, err := p.outbox.stack.watchWithClient(roleReceiver)
	if err != nil {
		return sample{}, err
	}
	until := time.Now().Add(duration)
	var done [backlogEndpoints * windowSize]int
	group, within := errgroup.WithContext(ctx)
	for i := range done {
		url := p.outbox.receiver.endpoint(behaviourGood, i%backlogEndpoints)
		group.Go(func() error {
			for time.Now().Before(until) {
				if err := p.post(within, url); err != nil {
					return err
				}
				done[i]++
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return sample{}, err
	}
	s, err := w.stop()
	for _, count := range &done {
		s.operations += count
	}
	return s, err
}

func (p *posts) post(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(p.event.Body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "examprep-webhooks/1")
	request.Header.Set("Webhook-Id", p.event.ID.String())
	request.Header[webhooks.SignatureHeader] = []string{webhooks.Sign([]string{p.secret}, time.Now(), p.event.Body)}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return &statusError{response.StatusCode, ""}
	}
	return nil
}
