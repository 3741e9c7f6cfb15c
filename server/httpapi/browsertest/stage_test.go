package browsertest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"examprep.dev/hack/dev/signin"
	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/usage"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery"
)

// stage is an installation with a receiver of webhooks, a provider to sign in at, and a browser. Webhooks may have loopback
// addresses here, which no setting of the product allows to developers.
type stage struct {
	*apitest.API

	t        *testing.T
	origin   string // where browsers reach the API
	receiver *testkit.Receiver
	meter    *usage.Meter
	chromium context.Context
	asked    testkit.Record // the paths that browsers asked for, one a line
	// instead, if it is set, may respond to a request; it reports whether it did.
	instead atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, chromium: startChromium(t)}
	s.receiver = testkit.StartReceiver(t, nil)
	front := httptest.NewServer(s.front())
	t.Cleanup(front.Close)
	s.origin = "http://localhost" + front.URL[len("http://127.0.0.1"):] // cookies know no ports: another host than the provider's
	issuer := s.startProvider()
	client, prefix := testkit.Redis(t)
	notifier := webhooks.NewNotifier(client, prefix, slog.New(slog.DiscardHandler))
	testkit.Run(t, notifier.Run)
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	var counted atomic.Pointer[usage.Meter]
	s.API = apitest.New(t, apitest.Options{
		Config: httpapi.Config{
			ReadTimeout: testkit.Patience, HandleTimeout: testkit.Patience, WriteTimeout: testkit.Patience,
			IdleTimeout: testkit.Patience, ShutdownGrace: testkit.Patience,
		},
		Gate: gate.Config{OnUse: func(key uuid.UUID, admitted bool) {
			if m := counted.Load(); m != nil {
				m.Count(key, admitted)
			}
		}},
		Developer: func(a *apitest.API) *developer.Deps {
			deps := a.Developer(sessions.Provider{
				Issuer: issuer, ClientID: "console", ClientSecret: "secret", RedirectURL: s.origin + "/v1/developer/callback",
			})
			deps.Webhooks = webhooks.NewEndpoints(a.Pool, apitest.Keyring(t), webhooks.NewAddressPolicy(loopback))
			deps.Deliveries = webhooks.NewDeliveries(a.Pool, func(endpoint uuid.UUID) { notifier.Notify(endpoint) })
			return deps
		},
	})
	s.meter = usage.NewMeter(s.Pool, usage.MeterConfig{Interval: time.Hour})
	counted.Store(s.meter)
	worker, err := delivery.New(delivery.Config{
		Prefix: prefix, Allowed: delivery.Ranges{Declared: loopback, Registered: loopback}, CAPEM: s.receiver.CAPEM(),
		Timeout: testkit.Patience, LeaseGrace: testkit.Patience, StatementTimeout: testkit.Patience, SweepTimeout: testkit.Patience,
		RetentionTimeout: testkit.Patience, RetryDelays: slices.Repeat([]time.Duration{time.Millisecond}, len(delivery.RetryDelays())),
		SweepInterval: 50 * time.Millisecond,
	}, testkit.Open(t, s.Pool.Config().ConnString(), delivery.SessionSettings()), client, apitest.Keyring(t))
	check.NoError(t, err)
	testkit.Run(t, worker.Run)
	return s
}

// behind passes requests on to the API, as an Ingress does.
func (s *stage) behind() http.Handler {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", s.Address, r.In.Host
	}}
}

// front passes requests on to the API, unless the test responds instead.
func (s *stage) front() http.Handler {
	behind := s.behind()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(&s.asked, r.URL.Path)
		if instead := s.instead.Load(); instead == nil || !(*instead)(w, r) {
			behind.ServeHTTP(w, r)
		}
	})
}

// people returns the users of the provider.
func people() []signin.User {
	return []signin.User{
		{Subject: "ada", Email: "ada@example.org", Name: "Ada"},
		{Subject: "bob", Email: "bob@example.org", Name: "Bob"},
		{Subject: "eve", Email: "eve@example.org", Name: "Eve"},
	}
}

// startProvider runs the provider of make dev and returns its issuer.
func (s *stage) startProvider() string {
	s.t.Helper()
	listener := testkit.Listen(s.t)
	issuer := "http://" + listener.Addr().String() + signin.Path
	provider, err := signin.New(signin.Config{
		Issuer: issuer, ClientID: "console", ClientSecret: "secret", RedirectURL: s.origin + "/v1/developer/callback", Users: people(),
	})
	check.NoError(s.t, err)
	testkit.Run(s.t, func(ctx context.Context) error { return provider.Serve(ctx, listener) })
	return issuer
}

// window opens a window with cookies of its own.
func (s *stage) window() *window {
	s.t.Helper()
	return newWindow(s.t, s.chromium, s.origin, chromedp.WithNewBrowserContext())
}

// arrived opens a window in which a person signs in, and does not wait for the console.
func (s *stage) arrived(name string) *window {
	s.t.Helper()
	w := s.window()
	w.visit("/console/")
	w.click("button", name)
	return w
}

// signedIn opens a window in which a person with an account has signed in, on the first page.
func (s *stage) signedIn(name string) *window {
	s.t.Helper()
	w := s.arrived(name)
	w.see("Overview")
	return w
}

// use sends a request with a key and returns the status.
func (s *stage) use(key string) int {
	s.t.Helper()
	got, _ := testkit.Call(s.t, http.DefaultTransport.RoundTrip, http.MethodGet, "http://"+s.Address+"/v1/exam-prep/list", "",
		map[string]string{"Authorization": "Bearer " + key})
	return got.StatusCode
}

// writeUsage stores the counts of all requests so far.
func (s *stage) writeUsage() {
	s.t.Helper()
	check.NoError(s.t, s.meter.Flush(s.t.Context()))
	check.NoError(s.t, s.meter.RollUp(s.t.Context()))
}

// refuseWhile makes the API unavailable for requests of one operation, until restore is called.
func (s *stage) refuseWhile(method, path string) (restore func()) {
	refuse := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || r.URL.Path != path {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.Header().Set("X-Request-Id", "refused-by-the-test")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":"service_unavailable","detail":"the test refuses it"}`))
		return true
	}
	s.instead.Store(&refuse)
	return func() { s.instead.Store(nil) }
}

// delayAnswer passes the API's responses to one operation on only after answer is called. The API has made one when held has a
// value.
func (s *stage) delayAnswer(method, path string) (held <-chan struct{}, answer func()) {
	made, answered := make(chan struct{}, 1), make(chan struct{})
	behind := s.behind()
	delay := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || r.URL.Path != path {
			return false
		}
		response := httptest.NewRecorder()
		behind.ServeHTTP(response, r)
		select {
		case made <- struct{}{}:
		default:
		}
		select {
		case <-answered:
		case <-r.Context().Done(): // the window was closed
		}
		maps.Copy(w.Header(), response.Header())
		w.WriteHeader(response.Code)
		_, _ = w.Write(response.Body.Bytes())
		return true
	}
	s.instead.Store(&delay)
	return made, func() { close(answered) }
}

// count returns the number that a query selects.
func (s *stage) count(query string) int {
	s.t.Helper()
	return testkit.Get[int](s.t, s.Pool, query)
}
