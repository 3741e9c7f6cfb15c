package baseline

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// Posts is a loop of signed POSTs of one body. It reads and writes nothing else.
type Posts struct {
	client   *http.Client
	urls     []string
	inFlight int
	id       string
	body     []byte
}

// postTimeout bounds one POST.
const postTimeout = 10 * time.Second

// NewPosts returns a loop that keeps inFlight POSTs of body in flight to each URL. id is the body's.
func NewPosts(trust *tls.Config, urls []string, inFlight int, id string, body []byte) *Posts {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &Posts{
		urls: urls, inFlight: inFlight, id: id, body: body,
		client: &http.Client{Timeout: postTimeout, Transport: &http.Transport{
			TLSClientConfig: trust, Protocols: &protocols, DisableCompression: true, MaxIdleConnsPerHost: inFlight,
		}},
	}
}

// Run posts for a duration and returns how many POSTs succeeded. The first failure ends it.
func (p *Posts) Run(ctx context.Context, duration time.Duration) (int, error) {
	until := time.Now().Add(duration)
	done := make([]int, len(p.urls)*p.inFlight)
	group, ctx := errgroup.WithContext(ctx)
	for i := range done {
		group.Go(func() error {
			for time.Now().Before(until) {
				if err := p.post(ctx, p.urls[i%len(p.urls)]); err != nil {
					return err
				}
				done[i]++
			}
			return nil
		})
	}
	total := 0
	err := group.Wait()
	for _, count := range done {
		total += count
	}
	return total, err
}

func (p *Posts) post(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(p.body))
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "examprep-webhooks/1")
	request.Header.Set("Webhook-Id", p.id)
	request.Header.Set("Service-Signature", sign(time.Now(), p.body))
	response, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("post: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("post: %s", response.Status)
	}
	return nil
}

// sign returns the header Service-Signature of a body, with a secret of the usual length.
func sign(at time.Time, body []byte) string {
	const secret = "whsec_bench00000000000000000000000000000000000000"
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(stamp + ".")) // a hash never fails
	_, _ = mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
