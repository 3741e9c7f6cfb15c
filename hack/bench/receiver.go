package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// The paths of the receiver; POSTs to any other are deliveries.
const (
	pathCount    = "/count"    // how many deliveries came, and over how many connections
	pathReceipts = "/receipts" // when each event came, since recording began
	pathRecord   = "/record"   // begins recording anew
	pathHang     = "/hang"     // deliveries to pathHanging get no answer
	pathRelease  = "/release"  // ... until now
	pathHanging  = "/endpoint/0"
)

// receiver takes deliveries, and counts them.
type receiver struct {
	count     atomic.Int64
	opened    atomic.Int64 // connections
	recording atomic.Bool

	mu sync.Mutex
	// receipts holds when an event came first, in ns since the epoch, by event id.
	receipts map[string]int64
	// hanging is closed when those that hang are released; nil when nothing hangs.
	hanging chan struct{}
}

// serveReceiver is the receiver of webhooks; it listens on the port of an address, at the host of every endpoint. Its arguments are an address and the files of certificate and key.
func serveReceiver(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s wants an address, a certificate and its key", roleReceiver)
	}
	r := &receiver{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET "+pathCount, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, r.count.Load(), " ", r.opened.Load())
	})
	mux.HandleFunc("GET "+pathReceipts, r.sendReceipts)
	mux.HandleFunc("PUT "+pathRecord, func(http.ResponseWriter, *http.Request) { r.record() })
	mux.HandleFunc("PUT "+pathHang, func(http.ResponseWriter, *http.Request) { r.setHanging(make(chan struct{})) })
	mux.HandleFunc("PUT "+pathRelease, func(http.ResponseWriter, *http.Request) { r.setHanging(nil) })
	mux.HandleFunc("POST /", r.take)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: answerTime,
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				r.opened.Add(1)
			}
		},
	}
	_, port, err := net.SplitHostPort(args[0])
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range endpoints {
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

// endpointHost is the loopback address of an endpoint, counted from 0: each has a host of its own, since clients keep
// connections by host.
func endpointHost(i int) string { return fmt.Sprintf("127.0.0.%d", i+1) }

func (r *receiver) take(_ http.ResponseWriter, request *http.Request) {
	_, _ = io.Copy(io.Discard, request.Body) // what is cut short comes again
	if request.URL.Path == pathHanging {
		if hanging := r.whatHangs(); hanging != nil {
			select {
			case <-hanging:
			case <-request.Context().Done():
				return
			}
		}
	}
	r.count.Add(1)
	if r.recording.Load() {
		r.note(request.Header.Get("webhook-id"), time.Now())
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

func (r *receiver) whatHangs() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hanging
}

func (r *receiver) setHanging(hanging chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hanging != nil {
		close(r.hanging)
	}
	r.hanging = hanging
}

// remote is the receiver as this process sees it.
type remote struct {
	url    string
	port   string
	client *http.Client
}

// endpoint is the URL of an endpoint, counted from 0.
func (r *remote) endpoint(i int) string {
	return fmt.Sprintf("https://%s/endpoint/%d", net.JoinHostPort(endpointHost(i), r.port), i)
}

// startReceiver runs a receiver until the stack is closed.
func (s *stack) startReceiver(ctx context.Context) (*remote, error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: s.certificate.trust()}}
	address, err := s.startRole(ctx, roleReceiver, "https", client, s.certificate.certFile, s.certificate.keyFile)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	return &remote{url: "https://" + address, port: port, client: client}, err
}

// tell sends one of the receiver's commands.
func (r *remote) tell(ctx context.Context, path string) error {
	_, err := fetch(ctx, r.client, http.MethodPut, r.url+path)
	return err
}

// counts is what came so far.
type counts struct{ deliveries, connections int }

func (r *remote) count(ctx context.Context) (counts, error) {
	text, err := fetch(ctx, r.client, http.MethodGet, r.url+pathCount)
	if err != nil {
		return counts{}, err
	}
	var c counts
	if _, err := fmt.Sscan(string(text), &c.deliveries, &c.connections); err != nil {
		return c, fmt.Errorf("the receiver's counts %q: %w", text, err)
	}
	return c, nil
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
