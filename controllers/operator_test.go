package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/webhooks"
)

// patience is how long a test waits for what must happen; a good run never needs a hundredth of it.
const patience = 60 * time.Second

// installation is a database with an operator at work on the namespaces of one test.
type installation struct {
	t    *testing.T
	kube client.Client
	pool *pgxpool.Pool
	deps Deps
	// options are the manager's, beside those that operate sets.
	options Options
	// config is the operator's way to the API server; nil: that of clustertest's user with the operator's role.
	config *rest.Config
	spaces []string
	// everywhere lets the operator watch all namespaces, not the test's alone.
	everywhere bool
	// writes counts the operator's requests to the API server that change something, statements those to Postgres.
	writes, statements atomic.Int64
	// stop ends the running operator and waits for it; operate sets it.
	stop func()
	// restore gives the database back to a test that has cut it off.
	restore func()
}

// install prepares a database and n namespaces; operate starts the operator.
func install(t *testing.T, environment postgres.Environment, n int) *installation {
	t.Helper()
	in := &installation{t: t, kube: clustertest.Client(t)}
	for range n {
		in.spaces = append(in.spaces, clustertest.Namespace(t))
	}
	in.serve(environment)
	return in
}

// serve prepares the database and what the operator calls.
func (in *installation) serve(environment postgres.Environment) {
	t := in.t
	t.Helper()
	in.pool = in.openPool(testkit.DatabaseURL(t))
	in.deps = Deps{
		ClusterName: "test",
		Publisher:   catalog.NewPublisher(in.pool, environment),
		Accounts:    keys.NewStore(in.pool, directory.NewAuthor(in.pool)),
		Tiers:       keys.NewStore(in.pool, directory.NewAuthor(in.pool)),
		Endpoints:   webhooks.NewManaged(in.pool, testKeyring(t), webhooks.NewAddressPolicy(loopback())),
	}
	t.Cleanup(in.checkInvariants)
}

// operating is install with the operator running.
func operating(t *testing.T) *installation {
	t.Helper()
	in := install(t, postgres.Sandbox, 1)
	in.operate()
	return in
}

func (in *installation) openPool(url string) *pgxpool.Pool {
	in.t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		in.t.Fatal(err)
	}
	config.ConnConfig.Tracer = statementCounter{&in.statements}
	pool, err := pgxpool.NewWithConfig(in.t.Context(), config)
	if err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(pool.Close)
	return pool
}

// statementCounter counts statements.
type statementCounter struct{ n *atomic.Int64 }

func (c statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// operate runs the operator until in.stop is called or the test ends.
func (in *installation) operate() {
	in.t.Helper()
	config := in.countedConfig()
	options := in.options
	options.WatchNamespaces, options.AllowSameNames, options.ShutdownGrace = in.spaces, true, patience
	if in.everywhere {
		options.WatchNamespaces = nil
	}
	if os.Getenv("EXAMPREP_TEST_LOG") != "" {
		options.Logger = slog.New(slog.NewTextHandler(in.t.Output(), nil))
	}
	manager, err := NewManager(config, options)
	if err != nil {
		in.t.Fatal(err)
	}
	if err := Setup(manager, in.deps); err != nil {
		in.t.Fatal(err)
	}
	in.stop = testkit.Run(in.t, manager.Start)
	if !manager.GetCache().WaitForCacheSync(in.t.Context()) {
		in.t.Fatal("the operator's cache did not fill")
	}
}

// countedConfig is the operator's way to the API server, with writes counted.
func (in *installation) countedConfig() *rest.Config {
	config := in.config
	if config == nil {
		config = clustertest.OperatorConfig(in.t)
	}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return writeCounter{next, &in.writes} })
	return config
}

// writeCounter counts requests that are no reads; events are left out, which are sent when it suits the recorder.
type writeCounter struct {
	next http.RoundTripper
	n    *atomic.Int64
}

func (c writeCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/events") {
		c.n.Add(1)
	}
	return c.next.RoundTrip(request)
}

// space is the test's first namespace.
func (in *installation) space() string { return in.spaces[0] }

func (in *installation) create(object client.Object) {
	in.t.Helper()
	if object.GetNamespace() == "" {
		object.SetNamespace(in.space())
	}
	if err := in.kube.Create(in.t.Context(), object); err != nil {
		in.t.Fatalf("create: %v", err)
	}
}

// edit changes an object as it is now on the server.
func edit[T client.Object](in *installation, object T, change func(T)) {
	in.t.Helper()
	in.eventually("edit", func() (bool, string) {
		if err := in.kube.Get(in.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return false, err.Error()
		}
		change(object)
		err := in.kube.Update(in.t.Context(), object)
		return err == nil, fmt.Sprint(err)
	})
}

func (in *installation) remove(object client.Object) {
	in.t.Helper()
	if err := in.kube.Delete(in.t.Context(), object); err != nil {
		in.t.Fatalf("delete: %v", err)
	}
}

// gone waits until an object is no longer there.
func (in *installation) gone(object client.Object) {
	in.t.Helper()
	in.eventually("be gone", func() (bool, string) {
		err := in.kube.Get(in.t.Context(), client.ObjectKeyFromObject(object), object)
		return err != nil && client.IgnoreNotFound(err) == nil, "still there"
	})
}

// eventually asks again and again until condition holds.
func (in *installation) eventually(what string, condition func() (ok bool, detail string)) {
	in.t.Helper()
	detail := "nothing was read"
	defer func() {
		if in.t.Failed() {
			in.t.Logf("%s: %s", what, detail)
		}
	}()
	testkit.Within(in.t, patience, what, func() (ok bool) {
		ok, detail = condition()
		return ok
	})
}

// until waits for a condition of an object, as of its newest generation, and returns its message.
func (in *installation) until(object client.Object, condition string, status metav1.ConditionStatus, reason string) string {
	in.t.Helper()
	var message string
	in.eventually(fmt.Sprintf("%s %s=%s/%s", object.GetName(), condition, status, reason), func() (bool, string) {
		if err := in.kube.Get(in.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return false, err.Error()
		}
		conditions := in.conditions(object)
		found := meta.FindStatusCondition(conditions, condition)
		if found == nil {
			return false, fmt.Sprintf("%+v", conditions)
		}
		message = found.Message
		return found.Status == status && found.Reason == reason && found.ObservedGeneration == object.GetGeneration(),
			fmt.Sprintf("%+v", conditions)
	})
	return message
}

// ready waits until an object is Ready as of its newest generation.
func (in *installation) ready(object client.Object) string {
	in.t.Helper()
	return in.until(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// reconcileNow asks for a reconcile and waits until it was made.
func (in *installation) reconcileNow(object client.Object, token string) {
	in.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileRequestAnnotation, token)
	if err := in.kube.Patch(in.t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		in.t.Fatal(err)
	}
	in.eventually("reconcile on request", func() (bool, string) {
		if err := in.kube.Get(in.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return false, err.Error()
		}
		_, _, handled := statusOf(object)
		return handled == token, handled
	})
}

// served reads what an API pod that starts now would serve as an exam's overview; ok is false when it serves none.
func (in *installation) served(examKey string) (overview map[string]any, ok bool) {
	in.t.Helper()
	snapshot, err := read.OpenSnapshot(in.t.Context(), in.pool, slog.New(slog.DiscardHandler), read.SnapshotConfig{})
	if err != nil {
		in.t.Fatal(err)
	}
	document, err := snapshot.Overview(examKey)
	if _, missing := errors.AsType[*catalog.NotFoundError](err); missing {
		return nil, false
	}
	if err != nil {
		in.t.Fatal(err)
	}
	testkit.Decode(in.t, document.JSON, &overview)
	return overview, true
}

// servedPaper reads the questions of a paper that an API pod that starts now would serve.
func (in *installation) servedPaper(examKey, paperID string) []string {
	in.t.Helper()
	snapshot, err := read.OpenSnapshot(in.t.Context(), in.pool, slog.New(slog.DiscardHandler), read.SnapshotConfig{})
	if err != nil {
		in.t.Fatal(err)
	}
	paper, err := snapshot.Paper(in.t.Context(), examKey, paperID)
	if err != nil {
		in.t.Fatal(err)
	}
	prompts := make([]string, len(paper.Questions))
	for i, question := range paper.Questions {
		var fields struct {
			Prompt string `json:"prompt"`
		}
		testkit.Decode(in.t, question, &fields)
		prompts[i] = fields.Prompt
	}
	return prompts
}

// events returns the reasons of the events about an object, oldest first, once there are at least n.
func (in *installation) events(object client.Object, n int) []string {
	in.t.Helper()
	var reasons []string
	in.eventually("events", func() (bool, string) {
		list := &eventsv1.EventList{}
		if err := in.kube.List(in.t.Context(), list, client.InNamespace(object.GetNamespace())); err != nil {
			return false, err.Error()
		}
		reasons = reasons[:0]
		for _, event := range list.Items {
			if event.Regarding.UID == object.GetUID() {
				reasons = append(reasons, event.Type+" "+event.Reason)
			}
		}
		return len(reasons) >= n, fmt.Sprint(reasons)
	})
	return reasons
}
