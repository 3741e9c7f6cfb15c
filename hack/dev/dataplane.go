package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/signin"
	"examprep.dev/hack/dev/state"
)

const (
	startTime = time.Minute
	askTime   = 2 * time.Second
	// account owns the key of .dev/env; samples may name it.
	account = "dev"
)

// startDataPlane migrates, publishes the samples, starts what serves, and prints the first request that worked.
func (e *environment) startDataPlane(ctx context.Context, group *errgroup.Group, lastKey string) error {
	if err := e.secrets(); err != nil {
		return err
	}
	var err error
	if e.apiAddress, err = e.ports.Address(ctx, "api"); err != nil {
		return err
	}
	e.origin = "http://" + e.apiAddress
	e.apiURL, e.consoleURL = e.origin+"/v1", e.origin+"/console/"
	if _, err := e.examprep(ctx, "migrate"); err != nil {
		return err
	}
	if err := e.publishSamples(ctx); err != nil {
		return err
	}
	if err := e.startSignIn(ctx, group); err != nil {
		return err
	}
	if err := e.startReceiver(ctx); err != nil {
		return err
	}
	if err := e.startAPI(ctx); err != nil {
		return err
	}
	if err := e.startProcess(ctx, "worker", nil); err != nil {
		return err
	}
	if err := e.ensureKey(ctx, lastKey); err != nil {
		return err
	}
	if err := e.ensureMember(ctx); err != nil {
		return err
	}
	if err := e.writeEnv(); err != nil {
		return err
	}
	e.console.sayf("the API serves. Open the console, or make a request:\n\n    %s\n    curl -H \"Authorization: Bearer %s\" %s\n",
		e.consoleURL, e.apiKey, e.apiURL+"/exam-prep/list")
	return nil
}

// secrets are generated once and kept: without the namespace secret learners would lose their history, without the
// encryption key endpoints their signatures.
func (e *environment) secrets() (err error) {
	e.namespaceSecret, err = e.dir.Secret("namespace", func() string { return state.RandomBase64(32) })
	if err != nil {
		return err
	}
	e.encryptionKeys, err = e.dir.Secret("encryption-keys", func() string { return "dev:" + state.RandomBase64(32) })
	return err
}

// settings are the variables that every process of the product gets.
func (e *environment) settings() []string {
	return []string{
		"DATABASE_URL=" + e.databaseURL, "REDIS_URL=" + e.redisURL, "EXAMPREP_ENVIRONMENT=sandbox",
		"EXAMPREP_NAMESPACE_SECRET=" + e.namespaceSecret, "EXAMPREP_ENCRYPTION_KEYS=" + e.encryptionKeys,
		"EXAMPREP_WEBHOOK_ALLOW_CIDR=127.0.0.0/8", "EXAMPREP_WEBHOOK_CA_FILE=" + e.dir.Path("receiver", "ca.pem"),
	}
}

// examprep runs one of the product's commands to its end.
func (e *environment) examprep(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return output(ctx, e.settings(), "", e.binary, args...)
}

// startProcess runs one of the product's long-lived commands, with health and metrics on ports of its own.
func (e *environment) startProcess(ctx context.Context, command string, more []string) error {
	health, err := e.ports.Address(ctx, command+"-health")
	if err != nil {
		return err
	}
	metrics, err := e.ports.Address(ctx, command+"-metrics")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err = e.supervisor.Start(ctx, process.Spec{
		Name: command, Path: e.binary, Args: []string{command}, Dir: e.root,
		Env:   append(append(e.settings(), "EXAMPREP_HEALTH_LISTEN="+health, "EXAMPREP_METRICS_LISTEN="+metrics), more...),
		Ready: func(ctx context.Context) error { return get(ctx, "http://"+health+"/readyz", "") },
	})
	if err == nil {
		e.console.sayf("%s is ready (health http://%s/readyz, metrics http://%s/metrics)", command, health, metrics)
	}
	return err
}

func (e *environment) startAPI(ctx context.Context) error {
	return e.startProcess(ctx, "api", append(e.signIn, "EXAMPREP_LISTEN="+e.apiAddress))
}

func (e *environment) startReceiver(ctx context.Context) error {
	address, err := e.ports.Address(ctx, "receiver")
	if err != nil {
		return err
	}
	failFile := e.dir.Path("receiver.fail")
	if _, err := os.Stat(failFile); err == nil {
		e.console.sayf("the receiver returns 503 for each delivery until you delete %s", failFile)
	}
	e.receiverURL = "https://" + address + "/"
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return e.supervisor.Start(ctx, process.Spec{
		Name: "receiver", Path: e.dir.Path("bin", "receiver"),
		Args: []string{
			"--listen", address, "--log", e.dir.Path("receiver.jsonl"), "--cert-dir", e.dir.Path("receiver"),
			"--secret-file", e.dir.Path("secrets", "webhooks"), "--fail-file", failFile,
		},
		Ready: func(ctx context.Context) error { return dial(ctx, address) },
	})
}

// publishSamples makes the samples readable before there is a cluster; applied there, the resources claim them.
func (e *environment) publishSamples(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(e.root, samples)); err != nil {
		return fmt.Errorf("find the samples: %w", err)
	}
	if _, err := e.examprep(ctx, "content", "publish", filepath.Join(e.root, samples)); err != nil {
		return err
	}
	e.console.sayf("published %s", samples)
	return nil
}

// ensureKey keeps the last run's key while the API takes it, and makes one otherwise.
func (e *environment) ensureKey(ctx context.Context, last string) error {
	list := e.apiURL + "/exam-prep/list"
	if e.apiKey = last; last != "" && get(ctx, list, last) == nil {
		return nil
	}
	text, err := e.examprep(ctx, "keys", "create", "--account", account, "--name", "make dev", "-o", "json")
	if err != nil {
		return err
	}
	var issued struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal([]byte(text), &issued); err != nil || issued.Key == "" {
		return fmt.Errorf("read the key that examprep keys create made: %q", text)
	}
	e.apiKey = issued.Key
	if err := get(ctx, list, e.apiKey); err != nil {
		return fmt.Errorf("the first request: %w", err)
	}
	return nil
}

// ensureMember makes the person who signs in an owner of the account of the key.
func (e *environment) ensureMember(ctx context.Context) error {
	person := e.issuer + "#" + signInUser
	text, err := e.examprep(ctx, "accounts", "members", account)
	if err != nil || strings.Contains(text, person) {
		return err
	}
	_, err = e.examprep(ctx, "accounts", "add", account, "--subject", person)
	return err
}

const (
	signInUser   = "dev"
	signInClient = "examprep"
	callbackPath = "/v1/developer/callback"
)

// startSignIn serves the sign-in provider from this process.
func (e *environment) startSignIn(ctx context.Context, group *errgroup.Group) error {
	address, err := e.ports.Address(ctx, "signin")
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve the sign-in provider: %w", err)
	}
	secret, err := e.dir.Secret("signin", func() string { return state.RandomHex(16) })
	if err != nil {
		return err
	}
	e.issuer = "http://" + address + signin.Path
	provider, err := signin.New(signin.Config{
		Issuer: e.issuer, ClientID: signInClient, ClientSecret: secret, RedirectURL: e.origin + callbackPath,
		Users: []signin.User{
			{Subject: signInUser, Email: "dev@example.com", Name: "Dev", Note: "owns the account " + account},
			{Subject: "guest", Email: "guest@example.com", Name: "Guest", Note: "owns another account, until Dev invites guest@example.com"},
		},
	})
	if err != nil {
		return err
	}
	e.signIn = []string{
		"EXAMPREP_OIDC_ISSUER=" + e.issuer, "EXAMPREP_OIDC_CLIENT_ID=" + signInClient,
		"EXAMPREP_OIDC_CLIENT_SECRET=" + secret, "EXAMPREP_OIDC_REDIRECT_URL=" + e.origin + callbackPath,
	}
	group.Go(func() error { return provider.Serve(ctx, listener) })
	e.console.sayf("sign-in provider on http://%s (no password)", address)
	return nil
}

// get asks with a key, if there is one, and wants 200.
func get(ctx context.Context, url, key string) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 2048))
	if err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
	}
	return nil
}

// dial returns an error if no process listens at the address.
func dial(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	return conn.Close()
}
