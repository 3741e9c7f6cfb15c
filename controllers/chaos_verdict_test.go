package controllers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

type witness struct {
	stop func()
	// looks counts exams read whole, failures reads that a killed server answered.
	looks, failures int
	digests         map[seen]catalog.Digest
}

type seen struct {
	examKey  string
	revision int64
}

// watch recomputes the digests of a random exam again and again. A digest that does not fit, or a revision that changes,
// fails the test.
func (c *chaos) watch() *witness {
	w := &witness{digests: map[seen]catalog.Digest{}}
	w.stop = testkit.Run(c.t, func(ctx context.Context) error {
		chance := c.random(-2)
		for pause(ctx, time.Millisecond) {
			_, _, key := c.name(chance.IntN(c.resources - chaosRivals))
			c.look(ctx, w, key)
		}
		return nil
	})
	return w
}

func (c *chaos) look(ctx context.Context, w *witness, examKey string) {
	one, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	audited, err := catalogtest.Audit(one, c.pool, examKey)
	if away(err) {
		w.failures++
		pause(ctx, 50*time.Millisecond)
		return
	}
	if err != nil {
		c.t.Errorf("half of a revision was visible: %v", err)
		return
	}
	w.looks++
	if audited.Revision == 0 {
		return
	}
	here := seen{examKey, audited.Revision}
	if before, known := w.digests[here]; known && before != audited.Digest {
		c.t.Errorf("revision %d of %s was %s and is %s", audited.Revision, examKey, before, audited.Digest)
	}
	w.digests[here] = audited.Digest
}

// away tells an answer that a killed server left out from one that it gave.
func away(err error) bool {
	var refused *catalogtest.AuditError
	return err != nil && !errors.As(err, &refused)
}

// checkDeclared compares every exam with the final resources. It computes the expected exams from the resources alone.
func (c *chaos) checkDeclared() {
	c.t.Helper()
	ready, blocked := 0, 0
	owners := c.owners()
	for i := range c.resources {
		space, name, key := c.name(i)
		content := &v1alpha1.ExamContent{}
		c.until("read "+name, func(ctx context.Context) error {
			return client.IgnoreNotFound(c.kube.Get(ctx, client.ObjectKey{Namespace: space, Name: name}, content))
		})
		if content.Name == "" {
			if owners[key] == space+"/"+name {
				c.t.Errorf("%s is deleted and owns %s still", name, key)
			}
			continue
		}
		checkConditions(c.t, name, content.Generation, content.Status.ObservedGeneration, content.Status.Conditions)
		is := meta.IsStatusConditionTrue(content.Status.Conditions, v1alpha1.ConditionReady)
		want, why := c.publishable(content, owners[key] == space+"/"+name)
		pinned := content.Spec.Revision != nil && why == ""
		if is != (why == "") && !pinned {
			c.t.Errorf("%s: Ready %v, but %s: %+v", name, is, cmp.Or(why, "nothing stands against it"), content.Status.Conditions)
			continue
		}
		if !is {
			blocked++
			continue
		}
		ready++
		c.compare(content, want)
	}
	c.t.Logf("in the end %d resources are Ready and served as declared, %d are not Ready for a reason of their own", ready, blocked)
	if ready < c.resources/8 {
		c.t.Errorf("only %d resources are Ready: the edits were too hard for the test to mean anything", ready)
	}
}

// owners are the claims: exam key to namespace and name.
func (c *chaos) owners() map[string]string {
	c.t.Helper()
	owners := map[string]string{}
	c.until("read the claims", func(ctx context.Context) error {
		rows, err := c.pool.Query(ctx, "SELECT exam_key, claim_namespace || '/' || claim_name FROM exams WHERE claim_name IS NOT NULL")
		if err != nil {
			return err
		}
		var key, owner string
		_, err = pgx.ForEachRow(rows, []any{&key, &owner}, func() error {
			owners[key] = owner
			return nil
		})
		return err
	})
	return owners
}

// publishable returns the papers that a resource declares, or why it cannot be published.
func (c *chaos) publishable(content *v1alpha1.ExamContent, owner bool) (papers map[string][]v1alpha1.Question, why string) {
	c.t.Helper()
	if content.Spec.Suspend {
		return nil, "it is suspended"
	}
	papers = map[string][]v1alpha1.Question{}
	for i, paper := range content.Spec.Papers {
		questions := paper.Questions
		if i == 1 && content.Spec.Revision == nil {
			raw, found := c.chunk(content)
			if !found || assemble.ChunkDigest([]byte(raw)) != paper.QuestionsFrom[0].Digest {
				return nil, "its chunk is not as declared"
			}
			testkit.Decode(c.t, []byte(raw), &questions)
		}
		papers[paper.PaperID] = questions
	}
	switch {
	case !owner:
		return nil, "the exam key is another's"
	case content.Spec.Revision != nil:
		return nil, ""
	case len(content.Spec.Papers[0].Questions) != 2:
		return nil, "a question stands twice"
	}
	valid, err := assemble.Assemble(c.t.Context(), content, &liveChunks{live: c.kube})
	check.NoError(c.t, err)
	exam := valid.Exam()
	for i := range exam.Papers {
		if digest, err := exam.Papers[i].SealDigest(); err != nil || digest.String() != content.Spec.Papers[i].Verification.Digest {
			return nil, "a seal is broken"
		}
	}
	return papers, ""
}

func (c *chaos) chunk(content *v1alpha1.ExamContent) (text string, found bool) {
	c.t.Helper()
	c.until("read a chunk", func(ctx context.Context) error {
		configMap := &corev1.ConfigMap{}
		err := c.kube.Get(ctx, client.ObjectKey{Namespace: content.Namespace, Name: "chunks-" + content.Name}, configMap)
		if apierrors.IsNotFound(err) {
			return nil
		}
		text, found = configMap.Data[chunkKey(0)]
		return err
	})
	return text, found
}

func (c *chaos) compare(content *v1alpha1.ExamContent, want map[string][]v1alpha1.Question) {
	c.t.Helper()
	audited, err := catalogtest.Audit(c.t.Context(), c.pool, content.Spec.ExamKey)
	if err != nil || audited.Withdrawn || audited.Revision != content.Status.Revision || audited.Digest.String() != content.Status.PublishedDigest {
		c.t.Errorf("%s: published %d %s %v, %v; status %+v", content.Name, audited.Revision, audited.Digest, audited.Withdrawn, err, content.Status)
		return
	}
	if pin := content.Spec.Revision; pin != nil {
		var digest []byte
		err := c.pool.QueryRow(c.t.Context(), "SELECT digest FROM exam_revisions WHERE exam_key = $1 AND revision = $2", content.Spec.ExamKey, *pin).Scan(&digest)
		if err != nil || catalog.Digest(digest) != audited.Digest {
			c.t.Errorf("%s: pinned to revision %d (%x, %v), published is %s", content.Name, *pin, digest, err, audited.Digest)
		}
		return
	}
	if audited.Exam.Name != content.Spec.Name || len(audited.Exam.Papers) != len(want) {
		c.t.Errorf("%s: published %q with %d papers, declared %q with %d", content.Name, audited.Exam.Name, len(audited.Exam.Papers), content.Spec.Name, len(want))
	}
	for _, paper := range audited.Exam.Papers {
		same := slices.EqualFunc(paper.Questions, want[paper.ID], func(a catalog.Question, b v1alpha1.Question) bool {
			return a.Section == int(b.Section) && a.Number == int(b.Number) && a.Prompt == b.Prompt && slices.Equal(a.Answer.Choices, []string{b.Answer.Choice})
		})
		if !same {
			c.t.Errorf("%s: paper %s is published as %+v, declared as %+v", content.Name, paper.ID, paper.Questions, want[paper.ID])
		}
	}
}

func (c *chaos) checkHistory(w *witness) {
	c.t.Helper()
	revisions := map[seen]catalog.Digest{}
	c.each("SELECT exam_key, revision, digest FROM exam_revisions", func(key string, revision int64, digest []byte) {
		revisions[seen{key, revision}] = catalog.Digest(digest)
	})
	for at, digest := range w.digests {
		check.Equal(c.t, revisions[at], digest, "revision %d of %s was seen with the digest", at.revision, at.examKey)
	}
	changes, withdrawals := map[seen]int{}, map[seen]int{}
	c.each(`SELECT d->>'exam_key', (d->>'content_version')::bigint, convert_to(d->>'changes', 'UTF8')
		FROM (SELECT convert_from(body, 'UTF8')::jsonb->'data' AS d FROM webhook_events) e`, func(key string, revision int64, raw []byte) {
		if string(raw) == `["withdrawn"]` {
			withdrawals[seen{key, revision}]++
		} else {
			changes[seen{key, revision}]++
		}
	})
	for at, digest := range revisions {
		check.Equal(c.t, changes[at], 1, "events of revision %d of %s", at.revision, at.examKey)
		before := seen{at.examKey, at.revision - 1}
		if at.revision > 1 && revisions[before] == digest && withdrawals[before] == 0 {
			c.t.Errorf("revision %d of %s says what the one before says", at.revision, at.examKey)
		}
	}
	for at, n := range withdrawals {
		check.Equal(c.t, n, 1, "withdrawals of revision %d of %s", at.revision, at.examKey)
	}
	check.Equal(c.t, len(changes), len(revisions), "revisions with events")
	c.each("SELECT exam_key, revision, changes::text::bytea FROM exam_repairs", func(key string, revision int64, raw []byte) {
		c.t.Errorf("nobody edited the database, but revision %d of %s was repaired: %s", revision, key, raw)
	})
	c.t.Logf("%d revisions of %d exams, each with one event; %d withdrawals", len(revisions), c.resources-chaosRivals, len(withdrawals))
}

func (c *chaos) each(query string, visit func(key string, revision int64, raw []byte)) {
	c.t.Helper()
	var (
		key      string
		revision int64
		raw      []byte
	)
	testkit.ForEach(c.t, c.pool, []any{&key, &revision, &raw}, func() { visit(key, revision, raw) }, query)
}
