package controllers

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func sampleTier(name string, requests int32) *v1alpha1.RateTier {
	tier := &v1alpha1.RateTier{}
	tier.Name = name
	tier.Spec = v1alpha1.RateTierSpec{Requests: requests, Accounts: []string{"acme"}}
	return tier
}

// tier reads a tier as it is in effect; nil when there is none.
func (in *installation) tier(name string) *keys.TierSpec {
	in.t.Helper()
	rows, _ := in.pool.Query(in.t.Context(), `SELECT name, requests, period_seconds * 1000000000::bigint, burst, key_prefixes, accounts,
		coalesce(managed_by, '') FROM rate_tiers WHERE name = $1`, name) // CollectOneRow returns the query's error
	spec, err := pgx.CollectOneRow(rows, pgx.RowToAddrOfStructByPos[keys.TierSpec])
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		in.t.Fatal(err)
	}
	return spec
}

func TestRateTierIsInEffectUntilDeleted(t *testing.T) {
	t.Parallel()
	in := operating(t)
	tier := sampleTier("gold", 600)
	in.create(tier)
	if message := in.ready(tier); message != "600 requests per 1m0s for 1 accounts and 0 keys" {
		t.Errorf("Ready says %q", message)
	}
	got := in.tier("gold")
	if got == nil || got.Requests != 600 || got.Period != time.Minute || got.Burst != 600 || !slices.Equal(got.Accounts, []string{"acme"}) {
		t.Errorf("in effect: %+v", got)
	}

	edit(in, tier, func(r *v1alpha1.RateTier) {
		r.Spec.Period = &metav1.Duration{Duration: time.Second}
		r.Spec.Burst = new(int32(50))
	})
	in.ready(tier)
	if got := in.tier("gold"); got.Period != time.Second || got.Burst != 50 {
		t.Errorf("in effect after the change: %+v", got)
	}

	in.delete(tier)
	if got := in.tier("gold"); got != nil {
		t.Errorf("in effect after the deletion: %+v", got)
	}
}

func rivalTiers(t *testing.T) (in *installation, winner, loser *v1alpha1.RateTier) {
	t.Helper()
	in = install(t, postgres.Sandbox, 2)
	in.operate()
	winner, loser = sampleTier("gold", 600), sampleTier("gold", 1)
	loser.Namespace = in.spaces[1]
	in.createReady(winner)
	in.create(loser)
	return in, winner, loser
}

func TestSecondRateTierOfANameChangesNothingAndTakesOver(t *testing.T) {
	t.Parallel()
	in, winner, loser := rivalTiers(t)
	message := in.until(loser, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonNameConflict)
	if !strings.Contains(message, "test/"+winner.Namespace+"/gold") {
		t.Errorf("message %q does not name the owner", message)
	}
	in.until(loser, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonNameConflict)
	if got := in.tier("gold"); got.Requests != 600 {
		t.Errorf("in effect: %+v", got)
	}

	in.delete(winner)
	in.ready(loser)
	if got := in.tier("gold"); got.Requests != 1 {
		t.Errorf("in effect after the winner's deletion: %+v", got)
	}
}

func TestLosingRateTierIsDeletedWithoutEffect(t *testing.T) {
	t.Parallel()
	in, _, loser := rivalTiers(t)
	in.until(loser, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonNameConflict)
	in.delete(loser)
	if got := in.tier("gold"); got == nil || got.Requests != 600 {
		t.Errorf("in effect: %+v", got)
	}
}

func TestTierThatCannotBeCountedExactlyIsRefusedByItsField(t *testing.T) {
	t.Parallel()
	in := operating(t)
	tier := sampleTier("odd", 9_999_991)
	tier.Spec.Period = &metav1.Duration{Duration: 24 * time.Hour}
	tier.Spec.Burst = new(int32(10_000_000))
	in.create(tier)
	if message := in.until(tier, v1alpha1.ConditionAccepted, "False", v1alpha1.ReasonInvalid); !strings.HasPrefix(message, "spec.burst: ") {
		t.Errorf("message %q", message)
	}
}

// TestABusyKeyHasTheTierOnceItIsReady: each request has the new limit as soon as a RateTier is Ready or deleted. A tier that
// names the key precedes tiers that name the account, the first of which by name applies. Without any, the default applies.
func TestABusyKeyHasTheTierOnceItIsReady(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	rdb, prefix := testkit.Redis(t)
	store := in.keys()
	in.deps.Tiers = store
	in.operate()
	key, err := store.CreateFor(t.Context(), "acme", keys.NewKey{})
	if err != nil {
		t.Fatal(err)
	}
	pod := gatetest.Start(t, in.pool, rdb, gatetest.Config{Prefix: prefix})
	check := func(when string, limit int) {
		t.Helper()
		d := pod.Check(t.Context(), []byte("Bearer "+key.Key), netip.MustParseAddr("192.0.2.7"))
		if d.Outcome != gate.Allowed || d.Limit != limit {
			t.Errorf("%s: %+v, want the limit %d", when, d, limit)
		}
	}
	check("without a tier", 120)
	second, first, direct := sampleTier("m-account", 600), sampleTier("a-account", 700), sampleTier("z-key", 800)
	direct.Spec.Accounts, direct.Spec.KeyPrefixes = nil, []string{key.Prefix}
	for _, step := range []struct {
		tier  *v1alpha1.RateTier
		limit int
	}{{second, 600}, {first, 700}, {direct, 800}} {
		in.create(step.tier)
		in.ready(step.tier)
		check(step.tier.Name+" is ready", step.limit)
	}
	edit(in, direct, func(r *v1alpha1.RateTier) { r.Spec.Requests = 900 })
	in.ready(direct)
	check("z-key is changed", 900)
	for _, step := range []struct {
		tier  *v1alpha1.RateTier
		limit int
	}{{direct, 700}, {first, 600}, {second, 120}} {
		in.remove(step.tier)
		in.gone(step.tier)
		check(step.tier.Name+" is gone", step.limit)
	}
}

// The name is not in the spec, and no other change helps.
func TestATierWithATooLongNameNamesTheNameAsTheField(t *testing.T) {
	t.Parallel()
	in := install(t, postgres.Sandbox, 1)
	in.operate()
	tier := sampleTier(strings.Repeat("a", 201), 600)
	in.create(tier)
	message := in.until(tier, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonInvalid)
	check.Contains(t, message, "metadata.name: must not be longer than 200", "message")
}
