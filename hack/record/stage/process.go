package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	commandTime = 2 * time.Minute
	startTime   = time.Minute
	stopTime    = 30 * time.Second
	readyPoll   = 50 * time.Millisecond
	askTime     = 2 * time.Second
	tailBytes   = 2000
)

// run runs one command of the product to its end and returns its output.
func (s *Stage) run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.cfg.Binary, args...)
	cmd.Env, cmd.Dir = s.environment(), s.dir
	var failed bytes.Buffer
	cmd.Stderr = &failed
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("examprep %q: %w: %s%s", args, err, tail(failed.Bytes()), tail(output))
	}
	return output, nil
}

// startAPI starts the API and waits until it is ready.
func (s *Stage) startAPI(ctx context.Context) error {
	health, errHealth := freeAddress(ctx)
	metrics, errMetrics := freeAddress(ctx)
	if err := errors.Join(errHealth, errMetrics); err != nil {
		return err
	}
	log, err := os.Create(s.path("api.log"))
	if err != nil {
		return fmt.Errorf("make the API's log: %w", err)
	}
	s.later(func() { _ = log.Close() })
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.cfg.Binary, "api")
	cmd.Env = append(s.environment(), s.apiSettings(health, metrics)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the API: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its log has the reason
	}()
	s.later(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(stopTime):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	if err := awaitReady(ctx, "http://"+health+"/readyz", ended); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("start the API: %w: %s", err, tail(text))
	}
	return nil
}

func (s *Stage) apiSettings(health, metrics string) []string {
	return []string{
		"EXAMPREP_LISTEN=" + s.Address, "EXAMPREP_HEALTH_LISTEN=" + health, "EXAMPREP_METRICS_LISTEN=" + metrics,
		"EXAMPREP_TRUSTED_PROXIES=" + ProxyRange, "EXAMPREP_MAX_CONNECTIONS_PER_ADDRESS=4",
		"EXAMPREP_OIDC_ISSUER=" + s.Issuer, "EXAMPREP_OIDC_CLIENT_ID=" + clientID, "EXAMPREP_OIDC_CLIENT_SECRET=" + clientSecret,
		"EXAMPREP_OIDC_REDIRECT_URL=http://" + s.Address + callbackPath,
	}
}

// ProxyRange are the addresses of trusted proxies.
const ProxyRange = "127.200.0.0/16"

var errEnded = errors.New("it ended")

func awaitReady(ctx context.Context, address string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		select {
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
			if answers(ctx, address) {
				return nil
			}
		}
	}
}

func answers(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func tail(text []byte) []byte {
	return text[max(0, len(text)-tailBytes):]
}
