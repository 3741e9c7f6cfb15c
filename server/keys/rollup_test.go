package keys_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
)

func TestUsageIsRolledUpWhereTheDatabasesURLSwitchesDescriptionsCacheOff(t *testing.T) {
	store, _, direct := newStore(t)
	id := idOf(t, store, create(t, store, keys.NewKey{}))
	cfg := direct.Config().ConnConfig
	address := addressOf(cfg, net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))))
	pool, err := postgres.Open(t.Context(), address.String()+"&description_cache_capacity=0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	meter := newMeter(pool, newClock(time.Now()))
	meter.Count(id, true)
	flush(t, meter)
	if got := usage(t, direct, id); got != [2]int64{1, 0} {
		t.Errorf("usage = %v", got)
	}
}
