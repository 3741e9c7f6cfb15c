package firing

import (
	"context"
	"testing"
	"time"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestAlertsOfTheNumberInRedis writes what no API pod writes to the number of the newest change of keys.
func TestAlertsOfTheNumberInRedis(t *testing.T) {
	s, p := newEnv(t), newPrometheus(t)
	rdb := testkit.OpenRedis(t, s.Cache, nil)
	name := "examprep:" + testkit.Get[string](t, s.db, "SELECT id::text FROM installation") + ":keys:change"
	t.Cleanup(func() { check.NoError(t, rdb.Del(context.WithoutCancel(t.Context()), name).Err()) })
	api := s.start("api")
	p.pods[api] = true
	reads(t, api, "examprep_ready 1")
	told := func() {
		testkit.Eventually(t, "Redis has the number of the newest change", func() bool {
			number, err := rdb.Get(t.Context(), name).Int64()
			return err == nil && number == testkit.Get[int64](t, s.db, "SELECT max(number) FROM key_changes")
		})
	}
	told()
	p.quiet(12, s.works(api))

	check.NoError(t, rdb.Set(t.Context(), name, "9223372036854775806", 0).Err())
	_ = s.NewKey(t, "later")
	reads(t, api, "examprep_keys_redis_numbers_replaced_total 1")
	p.fire(5*time.Minute, nothing, "ExamprepKeysRedisOverwritten")
	told()

	check.NoError(t, rdb.Del(t.Context(), name).Err())
	check.NoError(t, rdb.LPush(t.Context(), name, "a list").Err())
	_ = s.NewKey(t, "latest")
	reads(t, api, "examprep_keys_live 3")
	p.fire(10*time.Minute, s.works(api), "ExamprepKeysRedisBehind")
	check.NoError(t, rdb.Del(t.Context(), name).Err())
	told()
	for range 4 {
		p.tick()
	}
	if p.firing()["ExamprepKeysRedisBehind"] {
		t.Error("ExamprepKeysRedisBehind fires although Redis has the number")
	}
}
