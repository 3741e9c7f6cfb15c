package directory_test

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// busy returns timings in which pods renew all the time, not twice a second.
func busy() directory.Timings {
	timings := gatetest.Timings()
	timings.Renew = 10 * time.Millisecond
	return timings
}

// TestANumberInRedisThatPostgreSQLNeverGaveIsReplaced writes numbers that PostgreSQL must not go above.
func TestANumberInRedisThatPostgreSQLNeverGaveIsReplaced(t *testing.T) {
	pool := testkit.Database(t)
	rdb, prefix := testkit.Redis(t)
	board, registry := directory.NewRedisBoard(rdb, prefix), prometheus.NewRegistry()
	key := create(t, pool, "acme")
	newest := testkit.Get[int64](t, pool, "SELECT max(number) FROM key_changes")
	var log testkit.Record
	d, _ := start(t, pool, directory.Config{
		Board: board, Timings: busy(), Registerer: registry, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	tomorrow := strconv.FormatInt(time.Now().Add(25*time.Hour).UnixMicro(), 10)
	numbers := []string{"9223372036854775806", "9223372036854775807", strings.Repeat("9", 30), "9007199254740993", tomorrow}
	for _, wrong := range append(numbers, "no number") {
		check.NoError(t, rdb.Set(t.Context(), prefix+"keys:change", wrong, 0).Err())
		testkit.Eventually(t, "Redis has the pod's number in place of "+wrong, func() bool {
			stored, err := board.Read(t.Context())
			return err == nil && stored == newest
		})
	}
	check.Equal(t, testkit.Get[int64](t, pool, "SELECT max(number) FROM key_changes"), newest, "newest change")
	check.Equal(t, int(testkit.Metric(t, registry, "examprep_keys_redis_numbers_replaced_total", nil)), len(numbers), "numbers replaced")
	check.Equal(t, strings.Count(log.String(), "PostgreSQL never gave"), len(numbers), "numbers logged")
	check.NoError(t, store(pool).RevokeAny(t.Context(), key.Prefix))
	confirm(t, pool, keys.Restriction)
	wantStatus(t, d, key, directory.Unknown)
	if now := testkit.Get[int64](t, pool, "SELECT last_value FROM key_change_numbers"); now > time.Now().Add(time.Hour).UnixMicro() {
		t.Errorf("the next change has a number above %d", now)
	}
}

func TestANumberThatRedisDoesNotTakeIsSeen(t *testing.T) {
	pool := testkit.Database(t)
	rdb, prefix := testkit.Redis(t)
	check.NoError(t, rdb.LPush(t.Context(), prefix+"keys:change", "a list").Err())
	registry := prometheus.NewRegistry()
	var log testkit.Record
	start(t, pool, directory.Config{
		Board: directory.NewRedisBoard(rdb, prefix), Timings: busy(), Registerer: registry, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	told := func() float64 { return testkit.Metric(t, registry, "examprep_keys_told", nil) }
	testkit.Eventually(t, "the error is logged", func() bool { return strings.Contains(log.String(), "WRONGTYPE") })
	check.Equal(t, told(), 0, "number told")
	rdb.Del(t.Context(), prefix+"keys:change")
	testkit.Eventually(t, "the number is told", func() bool {
		return told() == testkit.Metric(t, registry, "examprep_keys_changes_applied", nil)
	})
	testkit.Eventually(t, "the end is logged", func() bool { return strings.Contains(log.String(), "again") })
	check.Equal(t, strings.Count(log.String(), "WRONGTYPE"), 1, "errors logged")
}
