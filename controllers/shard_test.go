package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// restSelector is that of the operator that takes what shards a and b leave.
const restSelector = v1alpha1.ShardLabel + " notin (a, b)"

// witnessed is a Publisher that keeps account of who published what, and can be held.
type witnessed struct {
	Publisher
	shard string
	hold  func(exam catalog.Exam)

	mu   sync.Mutex
	seen map[string]int
}

func (w *witnessed) Publish(ctx context.Context, claim catalog.Claim, exam catalog.ValidExam, options catalog.Options) (catalog.Publication, error) {
	w.mu.Lock()
	w.seen[claim.Name]++
	w.mu.Unlock()
	if w.hold != nil {
		w.hold(exam.Exam())
	}
	return w.Publisher.Publish(ctx, claim, exam, options)
}

func (w *witnessed) published() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name := range w.seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (w *witnessed) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.seen)
}

func (in *installation) operateShard(name, selector string, hold func(catalog.Exam)) *witnessed {
	in.t.Helper()
	shard, err := ParseShard(name, selector)
	check.NoError(in.t, err)
	w := &witnessed{Publisher: in.deps.Publisher, shard: name, hold: hold, seen: map[string]int{}}
	deps := in.deps
	defer func() { in.deps = deps }()
	in.deps.Publisher, in.deps.Shard, in.options.Shard = w, shard, shard
	in.operate()
	return w
}

func labelled[T client.Object](object T, shard string) T {
	if shard == "" {
		object.SetLabels(nil)
	} else {
		object.SetLabels(map[string]string{v1alpha1.ShardLabel: shard})
	}
	return object
}

func TestEachShardTakesCareOfItsOwnAndOneOfTheRest(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	witnesses := map[string]*witnessed{
		"a": in.operateShard("a", v1alpha1.ShardLabel+"=a", nil),
		"b": in.operateShard("b", v1alpha1.ShardLabel+"=b", nil),
		"":  in.operateShard("", restSelector, nil),
	}
	var exams []*v1alpha1.ExamContent
	for i, shard := range []string{"a", "b", "", "typo", "a", "b", ""} {
		name := fmt.Sprintf("exam-%d", i)
		exams = append(exams, labelled(sampleContent(name, sampleKey(t)+"-"+name), shard))
		in.create(exams[i])
	}
	endpoint, tier := labelled(sampleEndpoint("https://hooks.example.com/"), "a"), labelled(sampleTier("gold", 600), "b")
	in.create(endpoint)
	in.create(tier)
	want := map[string][]string{"a": {"exam-0", "exam-4"}, "b": {"exam-1", "exam-5"}, "": {"exam-2", "exam-3", "exam-6"}}
	for _, exam := range exams {
		in.ready(exam)
	}
	in.ready(endpoint)
	in.ready(tier)
	for shard, witness := range witnesses {
		check.Slices(t, witness.published(), want[shard], "published by shard %q", shard)
	}
	for i, shard := range []string{"a", "b", "", "", "a", "b", ""} {
		check.Equal(t, exams[i].Status.Shard, shard, "exam-%d: status of shard", i)
	}
	if endpoint.Status.Shard != "a" || tier.Status.Shard != "b" {
		t.Errorf("endpoint of shard %q, tier of %q", endpoint.Status.Shard, tier.Status.Shard)
	}
}

func TestAResourceIsHandedFromShardToShard(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	a := in.operateShard("a", v1alpha1.ShardLabel+"=a", nil)
	b := in.operateShard("b", v1alpha1.ShardLabel+"=b", nil)
	rest := in.operateShard("", restSelector, nil)
	content := labelled(sampleContent("moved", sampleKey(t)), "a")
	content.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	in.createReady(content)
	for i, step := range []struct {
		label string
		owner *witnessed
	}{{"b", b}, {"", rest}, {"typo", rest}, {"a", a}, {"b", b}} {
		edit(in, content, func(c *v1alpha1.ExamContent) { labelled(c, step.label) })
		in.eventually("be taken over by "+step.owner.shard, func() (bool, string) {
			in.ready(content)
			return content.Status.Shard == step.owner.shard, content.Status.Shard
		})
		for _, w := range []*witnessed{a, b, rest} {
			w.reset()
		}
		edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = fmt.Sprintf("Name %d", i) })
		in.ready(content)
		check.Equal(t, content.Status.Revision, int64(i+2), "revision after %d changes and as many moves", i+1)
		for _, w := range []*witnessed{a, b, rest} {
			check.Equal(t, len(w.published()) > 0, w == step.owner, "moved to %q: shard %q worked on it", step.label, w.shard)
		}
	}
	in.delete(content)
	if _, ok := in.served(content.Spec.ExamKey); ok {
		t.Error("served after the deletion by the last shard")
	}
}

// TestWhatAShardPublishesLateIsPutRight: shard a is slow to publish; meanwhile the exam is changed and given to b. What a
// had begun comes last, and b's second look sees to it.
func TestWhatAShardPublishesLateIsPutRight(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	begun, goOn := make(chan struct{}), make(chan struct{})
	a := in.operateShard("a", v1alpha1.ShardLabel+"=a", func(exam catalog.Exam) {
		if exam.Name == "Slow" {
			close(begun)
			<-goOn
		}
	})
	stopA := in.stop
	in.operateShard("b", v1alpha1.ShardLabel+"=b", nil)
	content := labelled(sampleContent("moved", sampleKey(t)), "a")
	in.createReady(content)
	edit(in, content, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Slow" })
	testkit.Receive(t, begun, "shard a begins to publish")
	edit(in, content, func(c *v1alpha1.ExamContent) { labelled(c, "b").Spec.Name = "New" })
	in.ready(content)
	in.serves(content.Spec.ExamKey, "New", "by shard b")
	check.Equal(t, content.Status.Shard, "b", "shard")
	close(goOn)
	in.eventually("publish late what it had begun", func() (bool, string) {
		overview, _ := in.served(content.Spec.ExamKey)
		return overview["name"] == "Slow", fmt.Sprint(overview["name"])
	})
	stopA()
	if got := a.published(); len(got) != 1 {
		t.Errorf("shard a worked on %v", got)
	}
	in.ready(content)
	check.Equal(t, content.Status.Shard, "b", "shard a wrote the status of what is b's; its shard")
	in.reconcileNow(content, "the second look") // by itself after handoverLook
	in.serves(content.Spec.ExamKey, "New", "after the second look")
}

func TestATierIsOnePerClusterWhateverTheShards(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 2)
	in.operateShard("a", v1alpha1.ShardLabel+"=a", nil)
	in.operateShard("", restSelector, nil)
	winner, loser := labelled(sampleTier("gold", 600), "a"), sampleTier("gold", 1)
	loser.Namespace = in.spaces[1]
	in.createReady(winner)
	in.create(loser)
	in.until(loser, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonNameConflict)
	edit(in, winner, func(r *v1alpha1.RateTier) { labelled(r, "") })
	in.eventually("be taken over", func() (bool, string) {
		in.ready(winner)
		return winner.Status.Shard == "", winner.Status.Shard
	})
	edit(in, loser, func(r *v1alpha1.RateTier) { labelled(r, "a") })
	in.eventually("be looked at by the other shard", func() (bool, string) {
		in.until(loser, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonNameConflict)
		return loser.Status.Shard == "a", loser.Status.Shard
	})
	if got := in.tier("gold"); got == nil || got.Requests != 600 {
		t.Errorf("in effect: %+v", got)
	}
	in.delete(winner)
	in.reconcileNow(loser, "or a minute later: shards do not see each other's deletions")
	in.ready(loser)
	if got := in.tier("gold"); got == nil || got.Requests != 1 {
		t.Errorf("in effect after the winner's deletion: %+v", got)
	}
}

func TestShardsElectTheirLeadersApart(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	user := "shards-of-" + in.space()
	clustertest.Grant(t, in.kube, in.space(), user, clustertest.Rules(t, "role.yaml"))
	rules := clustertest.Rules(t, "leader_election_role.yaml")
	for i := range rules {
		for j, name := range rules[i].ResourceNames {
			rules[i].ResourceNames[j] = "examprep-operator-a.examprep.dev"
			rules[i].ResourceNames = append(rules[i].ResourceNames, name)
		}
	}
	clustertest.Grant(t, in.kube, in.space(), user, rules)
	in.config = clustertest.As(clustertest.Config(t), user)
	in.options.LeaderElection, in.options.LeaderElectionNamespace = true, in.space()
	in.operateShard("a", v1alpha1.ShardLabel+"=a", nil)
	stopA := in.stop
	in.operateShard("", restSelector, nil)
	of, rest := labelled(sampleContent("of-a", sampleKey(t)+"-a"), "a"), sampleContent("of-none", sampleKey(t)+"-b")
	in.create(of)
	in.create(rest)
	in.ready(of)
	in.ready(rest)
	in.operateShard("a", v1alpha1.ShardLabel+"=a", nil) // on standby
	stopA()
	edit(in, of, func(c *v1alpha1.ExamContent) { c.Spec.Name = "Renamed" })
	in.ready(of)
}

func TestShardSettingsThatWouldOverlapAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, selector string
		good           bool
	}{
		{"", "", true},
		{"", restSelector, true},
		{"a", v1alpha1.ShardLabel + "=a", true},
		{"a", "", false},
		{"a", "=", false},
		{"A b", v1alpha1.ShardLabel + "=a", false},
	} {
		if _, err := ParseShard(c.name, c.selector); (err == nil) != c.good {
			t.Errorf("shard %q with selector %q: %v", c.name, c.selector, err)
		}
	}
}
