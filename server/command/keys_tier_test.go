package command

import (
	"net/netip"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestKeysTierIsInEffectWhenTheCommandEnds: the gate of a pod that serves the key meanwhile applies the tier from then on,
// and the rule's again when the tier is taken away.
func TestKeysTierIsInEffectWhenTheCommandEnds(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	rdb, _ := testkit.Redis(t)
	installation, err := postgres.ReadInstallation(t.Context(), i.pool, postgres.Sandbox)
	check.NoError(t, err)
	pod := gatetest.Start(t, i.pool, rdb, gatetest.Config{Prefix: installation.RedisPrefix()})
	store := keys.NewStore(i.pool, directory.NewAuthor(i.pool, directory.AuthorConfig{Timings: patient().Timings}))
	for _, tier := range []keys.TierSpec{
		{Name: "gold", Requests: 1000, Period: time.Second}, {Name: "iron", Requests: 10, Period: time.Hour},
	} {
		check.NoError(t, store.ApplyTier(t.Context(), tier))
	}
	issued := i.execute(t, "keys", "create", "--account", "acme")
	text, _ := issued["key"].(string)
	key, _ := issued["key_prefix"].(string)
	for _, step := range []struct {
		tier  string
		limit int
	}{{"", 120}, {"gold", 1000}, {"iron", 10}, {"default", 120}} {
		if step.tier != "" {
			i.execute(t, "keys", "tier", key, step.tier)
		}
		for range 3 { // the first is answered no other than the rest
			d := pod.Check(t.Context(), []byte("Bearer "+text), netip.MustParseAddr("192.0.2.7"))
			if d.Outcome != gate.Allowed || d.Limit != step.limit || d.Policy.Requests != step.limit {
				t.Errorf("on tier %q: %+v, want the limit %d", step.tier, d, step.limit)
			}
		}
	}
}
