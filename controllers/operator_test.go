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
	"examprep.dev/server/accounts"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

type installation struct {
	t    *testing.T
	kube client.Client
	pool *pgxpool.Pool
	deps Deps
	// options are the manager's. operate sets the others.
	options    Options
	config     *rest.Config
	spaces     []string
	everywhere bool
	// writes counts the operator's requests to the API server that change something, statements those to Postgres.
	writes, statements atomic.Int64
	stop               func()
	restore            func()
}

func install(t *testing.T, environment postgres.Environment, n int) *installation {
	t.Helper()
	in := &installation{t: t, kube: clustertest.Client(t)}
	for range n {
		in.spaces = append(in.spaces, clustertest.Namespace(t))
	}
	in.serve(environment)
	return in
}

func (in *installation) serve(environment postgres.Environment) {
	t := in.t
	t.Helper()
	in.pool = in.openPool(testkit.DatabaseURL(t))
	in.deps = Deps{
		ClusterName: "test",
		Publisher:   catalog.NewPublisher(in.pool, environment),
		Accounts:    accounts.NewAdministration(in.pool, time.Now),
		Tiers:       in.keys(),
		Endpoints:   webhooks.NewManaged(in.pool, testKeyring(t), webhooks.NewAddressPolicy(loopback())),
		// Tests ask for a look at an endpoint. One more look in between would count as a write.
		HealthInterval: time.Hour,
		StatusTimeout:  testkit.Patience,
	}
	// A leader that is slow to renew its lease keeps it, and a standby takes it soon after the leader has given it back.
	in.options.LeaseDuration, in.options.LeaseRenew, in.options.LeaseRetry = 3*testkit.Patience, 2*testkit.Patience, time.Second
	t.Cleanup(in.checkInvariants)
}

// keys returns a store whose changes do not end unconfirmed on a busy machine.
func (in *installation) keys() *keys.Store {
	return keys.NewStore(in.pool, directory.NewAuthor(in.pool, directory.AuthorConfig{Timings: directory.Production().Slower(100)}))
}

func operating(t *testing.T) *installation {
	t.Helper()
	in := install(t, postgres.Sandbox, 1)
	in.operate()
	return in
}

// publishing returns an installation that has published a sample exam.
func publishing(t *testing.T) (*installation, *v1alpha1.ExamContent) {
	t.Helper()
	in, content := operating(t), sampleContent("sample", sampleKey(t))
	in.createReady(content)
	return in, content
}

// registering returns an installation that has registered a sample endpoint.
func registering(t *testing.T) (*installation, *v1alpha1.WebhookEndpoint) {
	t.Helper()
	in, endpoint := operating(t), sampleEndpoint("https://hooks.example.com/")
	in.createReady(endpoint)
	return in, endpoint
}

func (in *installation) openPool(url string) *pgxpool.Pool {
	in.t.Helper()
	config, err := pgxpool.ParseConfig(url)
	check.NoError(in.t, err)
	config.ConnConfig.Tracer = statementCounter{&in.statements}
	pool, err := pgxpool.NewWithConfig(in.t.Context(), config)
	check.NoError(in.t, err)
	in.t.Cleanup(pool.Close)
	return pool
}

type statementCounter struct{ n *atomic.Int64 }

func (c statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (in *installation) operate() {
	in.t.Helper()
	config := in.countedConfig()
	options := in.options
	options.WatchNamespaces, options.AllowSameNames, options.ShutdownGrace = in.spaces, true, testkit.Patience
	if in.everywhere {
		options.WatchNamespaces = nil
	}
	if os.Getenv("EXAMPREP_TEST_LOG") != "" {
		options.Logger = slog.New(slog.NewTextHandler(in.t.Output(), nil))
	}
	manager, err := NewManager(config, options)
	check.NoError(in.t, err)
	check.NoError(in.t, Setup(manager, in.deps))
	in.stop = testkit.Run(in.t, manager.Start)
	if !manager.GetCache().WaitForCacheSync(in.t.Context()) {
		in.t.Fatal("the operator's cache did not fill")
	}
}

func (in *installation) countedConfig() *rest.Config {
	config := in.config
	if config == nil {
		config = clustertest.OperatorConfig(in.t)
	}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return writeCounter{next, &in.writes} })
	return config
}

// writeCounter counts requests that write, except events: the recorder sends them at any time.
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

func (in *installation) space() string { return in.spaces[0] }

func (in *installation) create(object client.Object) {
	in.t.Helper()
	if object.GetNamespace() == "" {
		object.SetNamespace(in.space())
	}
	check.NoErrorf(in.t, in.kube.Create(in.t.Context(), object), "create")
}

func (in *installation) createReady(object client.Object) {
	in.t.Helper()
	in.create(object)
	in.ready(object)
}

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
	check.NoErrorf(in.t, in.kube.Delete(in.t.Context(), object), "delete")
}

func (in *installation) delete(object client.Object) {
	in.t.Helper()
	in.remove(object)
	in.gone(object)
}

func (in *installation) gone(object client.Object) {
	in.t.Helper()
	in.eventually("be gone", func() (bool, string) {
		err := in.kube.Get(in.t.Context(), client.ObjectKeyFromObject(object), object)
		return err != nil && client.IgnoreNotFound(err) == nil, "still there"
	})
}

func (in *installation) eventually(what string, condition func() (ok bool, detail string)) {
	in.t.Helper()
	detail := "nothing was read"
	defer func() {
		if in.t.Failed() {
			in.t.Logf("%s: %s", what, detail)
		}
	}()
	testkit.Eventually(in.t, what, func() (ok bool) {
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

func (in *installation) ready(object client.Object) string {
	in.t.Helper()
	return in.until(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

// reconcileNow asks for a reconcile and waits until it was made.
func (in *installation) reconcileNow(object client.Object, token string) {
	in.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileRequestAnnotation, token)
	check.NoError(in.t, in.kube.Patch(in.t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))))
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
	snapshot := catalogtest.OpenPatientSnapshot(in.t, in.pool, read.SnapshotConfig{})
	document, err := snapshot.Overview(examKey)
	if _, missing := errors.AsType[*catalog.NotFoundError](err); missing {
		return nil, false
	}
	check.NoError(in.t, err)
	testkit.Decode(in.t, document.JSON, &overview)
	return overview, true
}

// serves reports an exam that is served under another name.
func (in *installation) serves(examKey, name, when string) {
	in.t.Helper()
	if overview, _ := in.served(examKey); overview["name"] != name {
		in.t.Errorf("%s: served %v, want the name %q", when, overview, name)
	}
}

func (in *installation) servedPaper(examKey, paperID string) []string {
	in.t.Helper()
	snapshot := catalogtest.OpenPatientSnapshot(in.t, in.pool, read.SnapshotConfig{})
	paper, err := snapshot.Paper(in.t.Context(), examKey, paperID)
	check.NoError(in.t, err)
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
