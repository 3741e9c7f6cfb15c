package controllers

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pgregory.net/rapid"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

type move struct {
	kind string
	// Indexes of the resource that moves, and of another one.
	who, with int
	policy    v1alpha1.DeletionPolicy
}

func anyHistory() *rapid.Generator[[]move] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) move {
		return move{
			kind:   rapid.SampledFrom([]string{"create", "create both", "edit", "edit", "delete", "swap", "adopt", "adopt back and forth"}).Draw(t, "kind"),
			who:    rapid.IntRange(0, 2).Draw(t, "who"),
			with:   rapid.IntRange(0, 2).Draw(t, "with"),
			policy: rapid.SampledFrom([]v1alpha1.DeletionPolicy{v1alpha1.DeletionRetain, v1alpha1.DeletionDelete}).Draw(t, "policy"),
		}
	}), 8, 10)
}

// rivalry is three resources for one exam key: one of the cluster north, two of the cluster south, which share a database.
type rivalry struct {
	*installation
	key string
	// live are the resources that exist; edits counts what each declared, so that a name tells who published it.
	live  [3]*v1alpha1.ExamContent
	edits int
}

func TestALosersHistoryNeverTouchesTheWinnersContent(t *testing.T) {
	t.Parallel()
	north := install(t, postgres.Sandbox, 1)
	south := install(t, postgres.Sandbox, 1)
	south.pool, south.deps.Publisher, south.deps.ClusterName = north.pool, north.deps.Publisher, "south"
	north.operate()
	south.operate()
	north.spaces = append(north.spaces, south.spaces...) // from here on it looks at both
	for seed := range 4 {
		r := &rivalry{installation: north, key: fmt.Sprintf("%s-%d", sampleKey(t), seed)}
		stop := r.read()
		for i, m := range anyHistory().Example(seed) {
			t.Logf("history %d, move %d: %+v", seed, i, m)
			r.play(m)
			if t.Failed() {
				return
			}
		}
		stop()
	}
}

// read recomputes what is published again and again, and fails the test where a digest does not fit. Without its pauses it would
// take a processor from the operator.
func (r *rivalry) read() (stop func()) {
	return testkit.Run(r.t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			var broken *catalogtest.AuditError
			if _, err := catalogtest.Audit(ctx, r.pool, r.key); errors.As(err, &broken) {
				r.t.Error(err)
			}
			_, _ = r.pool.Exec(ctx, "SELECT pg_sleep(0.01)") // it ends with ctx
		}
		return nil
	})
}

func (r *rivalry) declare(i int, policy v1alpha1.DeletionPolicy) *v1alpha1.ExamContent {
	content := sampleContent(fmt.Sprintf("%s-%d", r.key[len(r.key)-1:], i), r.key)
	content.Namespace = r.spaces[min(i, 1)]
	content.Spec.DeletionPolicy = policy
	r.rename(i, content)
	return content
}

func (r *rivalry) rename(i int, content *v1alpha1.ExamContent) {
	r.edits++
	content.Spec.Name = fmt.Sprintf("%d by %d", r.edits, i)
}

// play makes a move and checks the result.
func (r *rivalry) play(m move) {
	r.t.Helper()
	before, was := r.published(), r.owner()
	free := was < 0 // or given up by what the move does
	switch m.kind {
	case "create", "create both":
		r.add(m.who, m.policy)
		if m.kind == "create both" {
			r.add(m.with, m.policy)
		}
	case "edit":
		if r.live[m.who] != nil {
			edit(r.installation, r.live[m.who], func(c *v1alpha1.ExamContent) { r.rename(m.who, c) })
		}
	case "delete", "swap":
		free = free || was == m.who
		r.drop(m.who)
		if m.kind == "swap" && m.with != m.who {
			r.add(m.with, m.policy)
		}
	case "adopt":
		r.adopt(m.who)
	case "adopt back and forth":
		r.adopt(m.who)
		r.adopt(m.with)
		r.adopt(m.who)
	}
	r.settle()
	now, after := r.owner(), r.published()
	moved := (m.kind == "adopt" || m.kind == "adopt back and forth") && r.live[m.who] != nil
	switch {
	case moved && now != m.who:
		r.t.Errorf("adopted by %d, owned by %d", m.who, now)
	case !moved && !free && now != was:
		r.t.Errorf("owned by %d, before by %d", now, was)
	case !moved && !free && (m.kind != "edit" || m.who != was) && (after.Revision != before.Revision || after.Digest != before.Digest):
		r.t.Errorf("a loser's move took the content from revision %d to %d", before.Revision, after.Revision)
	}
	r.check(now, after)
}

func (r *rivalry) add(i int, policy v1alpha1.DeletionPolicy) {
	if r.live[i] == nil {
		r.live[i] = r.declare(i, policy)
		r.create(r.live[i])
	}
}

func (r *rivalry) drop(i int) {
	if r.live[i] != nil {
		r.remove(r.live[i])
		r.gone(r.live[i])
		r.live[i] = nil
	}
}

func (r *rivalry) adopt(i int) {
	if r.live[i] == nil {
		return
	}
	edit(r.installation, r.live[i], func(c *v1alpha1.ExamContent) { c.Spec.Adopt = true })
	r.ready(r.live[i])
	edit(r.installation, r.live[i], func(c *v1alpha1.ExamContent) { c.Spec.Adopt = false })
	r.ready(r.live[i])
}

// settle reconciles every resource twice, because the first reconcile can give a key to another resource.
func (r *rivalry) settle() {
	for range 2 {
		for _, content := range r.live {
			if content != nil {
				r.edits++
				r.reconcileNow(content, fmt.Sprint(r.edits))
			}
		}
	}
}

func (r *rivalry) owner() int {
	r.t.Helper()
	for i := range r.live {
		var found bool
		cluster := []string{"test", "south", "south"}[i]
		err := r.pool.QueryRow(r.t.Context(), `SELECT EXISTS (SELECT FROM exams
			WHERE exam_key = $1 AND claim_cluster = $2 AND claim_namespace = $3 AND claim_name = $4)`,
			r.key, cluster, r.spaces[min(i, 1)], fmt.Sprintf("%s-%d", r.key[len(r.key)-1:], i)).Scan(&found)
		check.NoError(r.t, err)
		if found {
			return i
		}
	}
	return -1
}

func (r *rivalry) published() catalogtest.Audited {
	r.t.Helper()
	audited, err := catalogtest.Audit(r.t.Context(), r.pool, r.key)
	check.NoError(r.t, err)
	return audited
}

// check compares what is published with the owner's declaration, and what the others say.
func (r *rivalry) check(owner int, published catalogtest.Audited) {
	r.t.Helper()
	for i, content := range r.live {
		if content == nil {
			if owner == i {
				r.t.Errorf("%d is deleted and owns the key", i)
			}
			continue
		}
		check.NoError(r.t, r.kube.Get(r.t.Context(), client.ObjectKeyFromObject(content), content))
		conditions := r.conditions(content)
		accepted := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted)
		switch {
		case owner < 0:
			r.t.Errorf("%d is there and nobody owns the key: %+v", i, conditions)
		case i != owner && (accepted.Status != metav1.ConditionFalse || accepted.Reason != v1alpha1.ReasonExamKeyConflict):
			r.t.Errorf("%d is not told that %d owns the key: %+v", i, owner, conditions)
		case i == owner && (published.Withdrawn || published.Exam.Name != content.Spec.Name ||
			published.Revision != content.Status.Revision || !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady)):
			r.t.Errorf("%d owns the key and declares %q; published is %q: %+v", i, content.Spec.Name, published.Exam.Name, content.Status)
		}
	}
}
