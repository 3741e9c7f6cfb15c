package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"examprep.dev/api/client"
)

// maxBody bounds a delivery; ours are far smaller.
const maxBody = 1 << 20

func main() {
	listen := flag.String("listen", "127.0.0.1:8443", "`address` to serve HTTPS on")
	logFile := flag.String("log", "receiver.jsonl", "`file` to append deliveries to, a line of JSON each")
	certDir := flag.String("cert-dir", ".", "`folder` of ca.pem, cert.pem and key.pem; made when missing")
	secretFile := flag.String("secret-file", "", "`file` of signing secrets, one a line, read at each delivery; without one nothing verifies")
	delay := flag.Duration("delay", 0, "`time` to wait before each answer")
	serveLog := flag.Bool("serve-log", false, "serve the log at GET /log, in part by Range, to clients that cannot read the file")
	fail := flag.Int("fail", 0, "answer this `many` deliveries with 500 first")
	failFile := flag.String("fail-file", "", "`file` that makes deliveries fail: each gets status 503 while the file exists")
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		usage()
		log.Fatalf("unexpected argument %q", flag.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, *listen, *logFile, *certDir, &receiver{
		secretFile: *secretFile, failFile: *failFile, delay: *delay, fail: *fail, serveLog: *serveLog, now: time.Now, show: os.Stdout,
	})
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `receiver takes webhook deliveries over HTTPS on loopback, verifies and prints each, and appends it to a file.
It answers 200 to what verifies and 400 to the rest. Give the worker --webhook-ca-file CERT-DIR/ca.pem, worker and operator
--webhook-allow-cidr 127.0.0.0/8, and declare this receiver as a WebhookEndpoint. docs/webhooks.md describes the deliveries.

`)
	flag.PrintDefaults()
}

func run(ctx context.Context, listen, logFile, certDir string, r *receiver) error {
	certificate, err := loadCertificate(certDir, r.now())
	if err != nil {
		return err
	}
	file, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = file.Close() }()
	r.log, r.logFile = file, logFile
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler: r, ReadTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	log.Printf("receiving on https://%s, writing %s", listener.Addr(), logFile)
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// receiver logs each delivery before it responds.
type receiver struct {
	secretFile string
	failFile   string // deliveries fail while it exists; "" for none
	delay      time.Duration
	serveLog   bool
	logFile    string // what log appends to
	now        func() time.Time

	mu   sync.Mutex
	fail int
	seen map[repetition]bool // verified deliveries
	log  io.Writer
	show io.Writer // gets a line for each delivery; nil for none
}

// repetition is the part of a delivery that is the same in its repetitions. Endpoints have paths of their own.
type repetition struct{ path, dedupeKey string }

// entry is one line of the log.
type entry struct {
	ReceivedAt time.Time         `json:"received_at"`
	Path       string            `json:"path"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
	Verified   bool              `json:"verified"`
	// Refused is the reason if Verified is false.
	Refused string `json:"refused,omitempty"`
	// Repeated reports whether a delivery with the same path and dedupe_key was verified and accepted before.
	Repeated bool `json:"repeated,omitempty"`
	Status   int  `json:"status"`
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if r.serveLog && request.Method == http.MethodGet && request.URL.Path == "/log" {
		http.ServeFile(w, request, r.logFile)
		return
	}
	if request.Method != http.MethodPost {
		http.Error(w, "deliveries are POSTs", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBody))
	if err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
		return
	}
	if r.delay > 0 {
		select {
		case <-time.After(r.delay):
		case <-request.Context().Done():
			return
		}
	}
	e := entry{
		ReceivedAt: r.now().UTC(), Path: request.URL.Path, Headers: flatten(request.Header), Body: string(body), Status: http.StatusOK,
	}
	if err := r.verify(request.Header.Get(client.SignatureHeader), body); err != nil {
		e.Refused, e.Status = err.Error(), http.StatusBadRequest
	}
	e.Verified = e.Status == http.StatusOK
	if r.isDown() {
		e.Status = http.StatusServiceUnavailable
	}
	if err := r.write(&e); err != nil {
		log.Print(err)
		e.Status = http.StatusInternalServerError
	}
	w.WriteHeader(e.Status)
	if e.Status == http.StatusServiceUnavailable {
		_, _ = fmt.Fprintf(w, "the receiver is down: delete %s to repair it\n", filepath.Base(r.failFile)) // the client went away
	}
}

// isDown reports whether the file exists that makes deliveries fail.
func (r *receiver) isDown() bool {
	if r.failFile == "" {
		return false
	}
	_, err := os.Stat(r.failFile)
	return err == nil
}

// write appends the entry; a planned failure is written down as such. One Write a line, so lines never mix.
func (r *receiver) write(e *entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail > 0 {
		r.fail--
		e.Status = http.StatusInternalServerError
	}
	if e.Verified && e.Status == http.StatusOK {
		e.Repeated = r.repeats(e)
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode delivery: %w", err)
	}
	if _, err := r.log.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write delivery down: %w", err)
	}
	if r.show != nil {
		fmt.Fprintln(r.show, e.summary())
	}
	return nil
}

// repeats reports whether the path got the event before, by its dedupe_key, and remembers it.
func (r *receiver) repeats(e *entry) bool {
	var event client.Event
	if json.Unmarshal([]byte(e.Body), &event) != nil || event.DedupeKey == "" {
		return false
	}
	if r.seen == nil {
		r.seen = map[repetition]bool{}
	}
	this := repetition{path: e.Path, dedupeKey: event.DedupeKey}
	repeated := r.seen[this]
	r.seen[this] = true
	return repeated
}

// summary is the delivery in a line.
func (e *entry) summary() string {
	var body struct {
		Event string          `json:"event"`
		Data  json.RawMessage `json:"data"`
	}
	verdict := "verified"
	if e.Repeated {
		verdict = "verified, repeated"
	}
	if e.Refused != "" {
		verdict = "refused (" + e.Refused + ")"
	}
	if json.Unmarshal([]byte(e.Body), &body) != nil {
		body.Event = "no JSON"
	}
	return printable(fmt.Sprintf("%s  %d  %s  %s  id %s  data %s", e.ReceivedAt.Format(time.RFC3339), e.Status, verdict,
		body.Event, e.Headers["Webhook-Id"], body.Data))
}

// printable is text in one short line that does nothing to a terminal.
func printable(text string) string {
	const longest = 300
	shown := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
	if len(shown) > longest {
		return string(shown[:longest]) + "…"
	}
	return string(shown)
}

func (r *receiver) verify(header string, body []byte) error {
	secrets, err := readSecrets(r.secretFile)
	if err != nil {
		return err
	}
	err = errors.New("no signing secret is known yet")
	for _, secret := range secrets {
		if err = client.Verify(header, body, secret, r.now(), client.Tolerance); err == nil {
			return nil
		}
	}
	return err
}

// readSecrets reads one secret a line. A file that is not there yet holds none.
func readSecrets(name string) ([]string, error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	defer func() { _ = file.Close() }()
	var secrets []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if secret := strings.TrimSpace(lines.Text()); secret != "" {
			secrets = append(secrets, secret)
		}
	}
	return secrets, lines.Err()
}

func flatten(header http.Header) map[string]string {
	flat := make(map[string]string, len(header))
	for name, values := range header {
		flat[name] = strings.Join(values, ", ")
	}
	return flat
}
