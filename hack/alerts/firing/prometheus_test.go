package firing

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"

	dto "github.com/prometheus/client_model/go"

	"examprep.dev/server/testkit/check"
)

// step is the engine's time between two scrapes.
const step = 30 * time.Second

type prometheus struct {
	t       *testing.T
	storage *teststorage.TestStorage
	groups  []*rules.Group
	pods    map[*pod]bool
	// now is the engine's time. ahead is added to each time that a process reports, so that it is as long ago in the engine's
	// time as in real time. It does not grow while frozen, so that reported times become old.
	now    time.Time
	ahead  time.Duration
	frozen bool
}

func newPrometheus(t *testing.T) *prometheus {
	t.Helper()
	files, err := filepath.Glob("../../../charts/examprep/alerts/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("rule files: %v, %v", files, err)
	}
	p := &prometheus{t: t, storage: teststorage.New(t), pods: map[*pod]bool{}, now: time.Now()}
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: slog.New(slog.DiscardHandler), MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: parser.NewParser(parser.Options{}),
		NoStepSubqueryIntervalFn: func(int64) int64 { return step.Milliseconds() },
	})
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, p.storage), AppendableV2: p.storage, Queryable: p.storage, Context: t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler),
		Parser: parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, files...)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, group := range groups { // what is recorded is asked for by those after it
		if strings.HasSuffix(group.Name(), "-records") {
			p.groups = append([]*rules.Group{group}, p.groups...)
		} else {
			p.groups = append(p.groups, group)
		}
	}
	return p
}

// tick lets step pass: every pod is scraped, every rule evaluated.
func (p *prometheus) tick() {
	p.t.Helper()
	p.now = p.now.Add(step)
	if !p.frozen {
		p.ahead = time.Until(p.now)
	}
	for pod := range p.pods {
		p.store(pod, p.scrape(pod))
	}
	for _, group := range p.groups {
		group.Eval(p.t.Context(), p.now)
	}
}

func (p *prometheus) scrape(from *pod) model.Vector {
	p.t.Helper()
	text := expfmt.NewTextParser(model.UTF8Validation)
	families, err := text.TextToMetricFamilies(strings.NewReader(from.Scrape()))
	check.NoError(p.t, err)
	all := make([]*dto.MetricFamily, 0, len(families))
	for _, family := range families {
		all = append(all, family)
	}
	samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(p.now.UnixNano())}, all...)
	check.NoError(p.t, err)
	return samples
}

// store keeps a scrape under the labels that a PodMonitor gives.
func (p *prometheus) store(from *pod, samples model.Vector) {
	p.t.Helper()
	appender := p.storage.Appender(p.t.Context())
	for _, sample := range samples {
		builder := labels.NewBuilder(labels.EmptyLabels())
		for name, value := range sample.Metric {
			builder.Set(string(name), string(value))
		}
		for name, value := range map[string]string{
			"namespace": "exams", "job": "exams/examprep", "instance": from.Metrics, "pod": from.name, "container": "examprep", "endpoint": "metrics",
		} {
			builder.Set(name, value)
		}
		value := float64(sample.Value)
		if strings.HasSuffix(string(sample.Metric[model.MetricNameLabel]), "_timestamp_seconds") && value > 0 {
			value += p.ahead.Seconds()
		}
		_, err := appender.Append(0, builder.Labels(), p.now.UnixMilli(), value)
		check.NoError(p.t, err)
	}
	check.NoError(p.t, appender.Commit())
}

func (p *prometheus) firing() map[string]bool {
	names := map[string]bool{}
	for _, group := range p.groups {
		for _, rule := range group.AlertingRules() {
			if rule.State() == rules.StateFiring {
				names[rule.Name()] = true
			}
		}
	}
	return names
}

// ofSpeed reports whether a slow machine is enough to fire an alert.
func ofSpeed(alert string, _ bool) bool {
	return strings.Contains(alert, "Latency") || alert == "ExamprepGateSlow"
}

func (p *prometheus) quiet(ticks int, each func()) {
	p.t.Helper()
	for range ticks {
		each()
		p.tick()
		firing := p.firing()
		if maps.DeleteFunc(firing, ofSpeed); len(firing) > 0 {
			p.t.Fatalf("nothing is wrong, and yet: %v", firing)
		}
	}
}

// fire lets time pass until all of the alerts fire, at most so long, and fails when one does not.
func (p *prometheus) fire(most time.Duration, each func(), alerts ...string) {
	p.t.Helper()
	missing := alerts
	for range int(most/step) + 1 {
		each()
		p.tick()
		firing := p.firing()
		missing = nil
		for _, alert := range alerts {
			if !firing[alert] {
				missing = append(missing, alert)
			}
		}
		if len(missing) == 0 {
			p.t.Logf("these fire: %v", alerts)
			return
		}
	}
	p.t.Errorf("after %s these do not fire: %v", most, missing)
}
