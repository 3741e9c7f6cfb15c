package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// The paths of the receiver; POSTs to any other are deliveries.
const (
	pathCount    = "/count"    // how many deliveries came
	pathReceipts = "/receipts" // when each event came, since recording began
	pathRecord   = "/record"   // begins recording anew
	pathEnough   = "/enough"   // ends recording
	pathRelease  = "/release"  // lets go of whoever hangs
)

// Behaviours of an endpoint, by the first part of its path. Nobody listens where behaviourClosed is sent to.
const (
	behaviourGood    = "good"
	behaviourSlow    = "slow"  // answers after slowAnswer
	behaviourHanging = "hang"  // never answers
	behaviourBroken  = "error" // answers 500
	behaviourClosed  = "closed"
	behaviourDrip    = "drip"  // answers 200 and a byte a second
	behaviourFlood   = "flood" // answers 200 and 1 GB
)

const (
	slowAnswer = 200 * time.Millisecond
	// floodSize is what behaviourFlood sends.
	floodSize = 1 << 30
	// hosts is how many loopback addresses the receiver listens at; at the next one nobody does.
	hosts = 24
)

// receiver takes deliveries, and counts those that it answers well.
type receiver struct {
	count     atomic.Int64
	recording atomic.Bool

	mu sync.Mutex
	// receipts holds when an event came first, in ns since the epoch, by event id.
	receipts map[string]int64
	// release is closed when those that hang are let go.
	release chan struct{}
}

// serveReceiver is the receiver of webhooks; it listens on the port of an address, at the host of every endpoint. Its
// arguments are an address and the files of certificate and key.
func serveReceiver(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s wants an address, a certificate and its key", roleReceiver)
	}
	r := &receiver{release: make(chan struct{})}
	server := &http.Server{Handler: r.routes(), ReadHeaderTimeout: answerTime}
	_, port, err := net.SplitHostPort(args[0])
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range hosts {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(endpointHost(i), port))
		if err != nil {
			return errors.Join(err, server.Close())
		}
		group.Go(func() error {
			if err := server.ServeTLS(listener, args[1], args[2]); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	return group.Wait()
}

func (r *receiver) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET "+pathCount, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, r.count.Load()) })
	mux.HandleFunc("GET "+pathReceipts, r.sendReceipts)
	mux.HandleFunc("PUT "+pathRecord, func(http.ResponseWriter, *http.Request) { r.record() })
	mux.HandleFunc("PUT "+pathEnough, func(http.ResponseWriter, *http.Request) { r.recording.Store(false) })
	mux.HandleFunc("PUT "+pathRelease, func(http.ResponseWriter, *http.Request) { r.letGo() })
	mux.HandleFunc("POST /", r.take)
	return mux
}

// endpointHost is the loopback address of an endpoint, counted from 0: each has a host of its own, since clients keep
// connections by host.
func endpointHost(i int) string { return fmt.Sprintf("127.0.0.%d", i+1) }

func (r *receiver) take(w http.ResponseWriter, request *http.Request) {
	_, _ = io.Copy(io.Discard, request.Body) // what is cut short comes again
	behaviour, _, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
	switch behaviour {
	case behaviourHanging:
		r.hang(request)
	case behaviourBroken:
		w.WriteHeader(http.StatusInternalServerError)
	case behaviourDrip:
		drip(w, request)
	case behaviourFlood:
		flood(w)
	default:
		if behaviour == behaviourSlow {
			<-time.After(slowAnswer)
		}
		r.count.Add(1)
		if r.recording.Load() {
			r.note(request.Header.Get("webhook-id"), time.Now())
		}
	}
}

// hang waits until the client has gone, or until all are let go.
func (r *receiver) hang(request *http.Request) {
	r.mu.Lock()
	release := r.release
	r.mu.Unlock()
	select {
	case <-release:
	case <-request.Context().Done():
	}
}

// drip answers a byte a second for longer than anyone waits.
func drip(w http.ResponseWriter, request *http.Request) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	control := http.NewResponseController(w)
	for range int(answerTime/time.Second) * 4 {
		if _, err := w.Write([]byte{'.'}); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-request.Context().Done():
			return
		case <-ticker.C:
		}
	}
}

func flood(w http.ResponseWriter) {
	chunk := make([]byte, 1<<20)
	for range floodSize / len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return // who asks has seen enough
		}
	}
}

func (r *receiver) note(event string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.receipts[event]; !known {
		r.receipts[event] = at.UnixNano()
	}
}

func (r *receiver) record() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.receipts = map[string]int64{}
	r.recording.Store(true)
}

func (r *receiver) sendReceipts(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := json.NewEncoder(w).Encode(r.receipts); err != nil {
		panic(http.ErrAbortHandler) // who asks sees that it is cut short
	}
}

func (r *receiver) letGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.release)
	r.release = make(chan struct{})
}

// remote is the receiver as this process sees it.
type remote struct {
	url    string
	port   string
	client *http.Client
}

// endpoint is the URL of an endpoint, counted from 0.
func (r *remote) endpoint(behaviour string, i int) string {
	host := endpointHost(i)
	if behaviour == behaviourClosed {
		host = endpointHost(hosts)
	}
	return fmt.Sprintf("https://%s/%s/%d", net.JoinHostPort(host, r.port), behaviour, i)
}

// startReceiver runs a receiver until the stack is closed, once.
func (s *stack) startReceiver(ctx context.Context) (*remote, error) {
	if s.receiver != nil {
		return s.receiver, nil
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: s.certificate.trust()}}
	address, err := s.startRole(ctx, roleReceiver, "https", client, s.certificate.certFile, s.certificate.keyFile)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	s.receiver = &remote{url: "https://" + address, port: port, client: client}
	return s.receiver, nil
}

// tell sends one of the receiver's commands.
func (r *remote) tell(ctx context.Context, path string) error {
	_, err := fetch(ctx, r.client, http.MethodPut, r.url+path)
	return err
}

// count is how many deliveries came so far.
func (r *remote) count(ctx context.Context) (int, error) {
	text, err := fetch(ctx, r.client, http.MethodGet, r.url+pathCount)
	if err != nil {
		return 0, err
	}
	count, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, fmt.Errorf("the receiver's count: %w", err)
	}
	return count, nil
}

func (r *remote) receipts(ctx context.Context) (map[string]int64, error) {
	text, err := fetch(ctx, r.client, http.MethodGet, r.url+pathReceipts)
	if err != nil {
		return nil, err
	}
	var receipts map[string]int64
	err = json.Unmarshal(text, &receipts)
	return receipts, err
}
