package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/cobra"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/golden"
	"examprep.dev/server/webhooks"
)

func TestGoldenMetricsOfTheAPI(t *testing.T) {
	flags := apiFlags{processFlags: processFlags{program: patient()}, listen: "127.0.0.1:0", namespaceSecret: namespaceSecret}
	p := wire(t, "api", &flags.processFlags, func(ctx context.Context, p *process) error { return runAPI(ctx, p, &flags) }, nil)
	golden.Compare(t, "metrics-api", describeMetrics(t, p.registry))
}

func TestGoldenMetricsOfTheWorker(t *testing.T) {
	flags := workerFlags{processFlags: processFlags{program: patient()}, encryptionKeys: encryptionKeys, retention: webhooks.DefaultRetention}
	p := wire(t, "worker", &flags.processFlags, func(ctx context.Context, p *process) error { return runWorker(ctx, p, &flags) }, nil)
	golden.Compare(t, "metrics-worker", describeMetrics(t, p.registry))
}

// alone is set for a copy of the test binary that runs one test.
const alone = "EXAMPREP_TEST_ALONE"

// TestGoldenMetricsOfTheOperator runs in a process of its own: one process can have one operator, and -count may ask for
// more.
func TestGoldenMetricsOfTheOperator(t *testing.T) {
	if os.Getenv(alone) == "" {
		copied := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-update="+flag.Lookup("update").Value.String())
		copied.Env = append(os.Environ(), alone+"=1")
		if output, err := copied.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	space := clustertest.Namespace(t)
	flags := operatorFlags{
		processFlags: processFlags{program: patient()}, encryptionKeys: encryptionKeys, kubeconfig: kubeconfig(t, clustertest.Config(t)), watchNamespaces: []string{space},
	}
	// The metric of resources that are not Ready has a type only while there is one.
	refused := &v1alpha1.WebhookEndpoint{}
	refused.Name, refused.Namespace = "refused", space
	refused.Spec = v1alpha1.WebhookEndpointSpec{URL: "https://10.0.0.1/", Events: []v1alpha1.EventKind{"exam.content_updated"}}
	check.NoError(t, clustertest.Client(t).Create(t.Context(), refused))
	p := wire(t, "operator", &flags.processFlags, func(ctx context.Context, p *process) error { return runOperator(ctx, p, &flags) },
		func(p *process) bool {
			return gatherTypes(t, p.registry)["examprep_operator_not_ready_since_timestamp_seconds"] != ""
		})
	golden.Compare(t, "metrics-operator", describeMetrics(t, p.registry))
}

// wire runs a process of this program on the test's servers until its health server answers and, if done is not nil,
// done reports true. Then everything is registered that the process registers. It returns the process, which has ended.
func wire(
	t *testing.T, name string, flags *processFlags, run func(context.Context, *process) error, done func(*process) bool,
) *process {
	t.Helper()
	for _, setting := range newEnv(t).Env {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	health := testkit.FreeAddress(t)
	t.Setenv("EXAMPREP_HEALTH_LISTEN", health)
	t.Setenv("EXAMPREP_METRICS_LISTEN", "127.0.0.1:0")
	t.Setenv("EXAMPREP_LOG_LEVEL", "error")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	log := new(testkit.Record) // libraries keep the logger beyond the test
	cmd.SetErr(log)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the %s:\n%s", name, log.Bytes())
		}
	})
	flags.register(cmd)
	if name != "operator" { // it does not use Redis
		flags.registerRedis(cmd)
	}
	check.NoError(t, cli.FillFromEnvironment(cmd))
	opened, ended := make(chan *process, 1), make(chan error, 1)
	go func() {
		ended <- flags.open(cmd, name, postgres.Options{}, func(ctx context.Context, p *process) error {
			opened <- p
			return run(ctx, p)
		})
	}()
	var p *process
	select {
	case p = <-opened:
	case err := <-ended:
		t.Fatal(err)
	}
	testkit.Eventually(t, name+" is wired", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("%s ended: %v", name, err)
		default:
		}
		answer, err := http.Get("http://" + health + "/healthz")
		return err == nil && answer.Body.Close() == nil && (done == nil || done(p))
	})
	stop()
	check.NoError(t, testkit.Receive(t, ended, name+" ends"))
	return p
}

// description matches the text of a prometheus.Desc, which has no other way to its fields: name, constant labels and
// variable labels.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", .*, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// describeMetrics returns a line for each metric of a registry: name, type and labels. It leaves out those of the Go
// runtime and of the process, which change with Go.
func describeMetrics(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	descriptions := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptions)
		close(descriptions)
	}()
	var all []*prometheus.Desc
	for desc := range descriptions {
		all = append(all, desc)
	}
	types, lines := gatherTypes(t, registry), []string{}
	for _, desc := range all {
		fields := description.FindStringSubmatch(desc.String())
		if fields == nil {
			t.Fatalf("%s has another form than this test expects", desc)
		}
		name := fields[1]
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		kind := types[name]
		if kind == "" {
			kind = vectorType(registry, desc)
		}
		if kind == "" {
			t.Errorf("%s has no series, and so no type", name)
		}
		lines = append(lines, fmt.Sprintf("%s %s {%s}", name, kind, strings.Join(labelNames(fields[2], fields[3]), ",")))
	}
	slices.Sort(lines)
	return slices.Compact(lines) // one metric may be registered once for each value of a constant label
}

func labelNames(constant, variable string) []string {
	var names []string
	for _, match := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(constant, -1) {
		names = append(names, match[1])
	}
	if variable != "" {
		names = append(names, strings.Split(variable, ",")...)
	}
	slices.Sort(names)
	return names
}

func gatherTypes(t *testing.T, registry *prometheus.Registry) map[string]string {
	t.Helper()
	families, err := registry.Gather()
	check.NoError(t, err)
	types := map[string]string{}
	for _, family := range families {
		types[family.GetName()] = strings.ToLower(family.GetType().String())
	}
	return types
}

// described is a collector that describes one metric and has no series.
type described struct{ desc *prometheus.Desc }

func (d described) Describe(to chan<- *prometheus.Desc) { to <- d.desc }
func (described) Collect(chan<- prometheus.Metric)      {}

// vectorType returns the type of a vector of metrics. A registry names its collector only when another with the same
// description asks to be registered.
func vectorType(registry *prometheus.Registry, desc *prometheus.Desc) string {
	known, ok := errors.AsType[prometheus.AlreadyRegisteredError](registry.Register(described{desc}))
	if !ok {
		return ""
	}
	var kind dto.MetricType
	switch known.ExistingCollector.(type) {
	case *prometheus.CounterVec:
		kind = dto.MetricType_COUNTER
	case *prometheus.GaugeVec:
		kind = dto.MetricType_GAUGE
	case *prometheus.HistogramVec:
		kind = dto.MetricType_HISTOGRAM
	case *prometheus.SummaryVec:
		kind = dto.MetricType_SUMMARY
	default:
		return ""
	}
	return strings.ToLower(kind.String())
}
