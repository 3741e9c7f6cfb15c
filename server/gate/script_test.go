package gate

import (
	"context"
	"encoding/binary"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"examprep.dev/server/keys"
	"examprep.dev/server/redisurl/redistest"
)

// clockedScript is the gate's script with Redis TIME replaced by the last two arguments, so that schedules are exact.
func clockedScript(t testing.TB) *redis.Script {
	t.Helper()
	clocked := strings.Replace(script, "call('TIME')", "{ARGV[#ARGV - 1], ARGV[#ARGV]}", 1)
	if clocked == script {
		t.Fatal("the script does not ask for TIME where the test expects it")
	}
	return redis.NewScript(clocked)
}

// scriptClient plays one pod against the clocked script, without a gate around it.
type scriptClient struct {
	rdb    redis.UniversalClient
	script *redis.Script
	term   string
	name   string
	now    int64 // µs
}

func newScriptClient(t testing.TB) *scriptClient {
	t.Helper()
	rdb, prefix := redistest.New(t)
	return &scriptClient{rdb: rdb, script: clockedScript(t), term: termBytes(1), name: prefix + "key", now: 1_700_000_000_000_000}
}

func (c *scriptClient) do(t interface{ Fatal(args ...any) }, operation string, args ...any) *redis.Cmd {
	argv := append([]any{operation, c.term}, args...)
	argv = append(argv, c.now/1_000_000, c.now%1_000_000)
	cmd := c.script.Run(context.Background(), c.rdb, []string{c.name}, argv...)
	if cmd.Err() != nil {
		t.Fatal(cmd.Err())
	}
	return cmd
}

func (c *scriptClient) ticket(t interface{ Fatal(args ...any) }) string {
	ticket, _ := c.do(t, "t").Text()
	return ticket
}

func (c *scriptClient) put(t interface{ Fatal(args ...any) }, ticket string, record keys.Record) bool {
	stored, _ := c.do(t, "p", ticket, versionBytes(record.Version), staticBytes(record)).Bool()
	return stored
}

func (c *scriptClient) announce(t interface{ Fatal(args ...any) }, record keys.Record) {
	c.do(t, "a", versionBytes(record.Version), staticBytes(record))
}

func (c *scriptClient) check(t interface{ Fatal(args ...any) }, n int) verdict {
	reply, _ := c.do(t, "c", binary.BigEndian.AppendUint16(nil, uint16(n)), 1, 1, 1).Text()
	var v verdict
	if rest, err := readVerdict(reply, &v); err != nil || rest != "" {
		t.Fatal("reply", []byte(reply), err)
	}
	return v
}

func someRecord(tier keys.Tier) keys.Record {
	id := uuid.New()
	return keys.Record{Identity: keys.Identity{KeyID: id, FamilyID: id, AccountID: uuid.New()}, Version: 1, Tier: tier}
}

// reference is the continuous bucket in exact fractions: contents in tokens, rate in tokens per microsecond.
type reference struct {
	burst, rate, tokens *big.Rat
	at                  int64
}

func newReference(tier keys.Tier, at int64) *reference {
	return &reference{
		burst: big.NewRat(int64(tier.Burst), 1), rate: big.NewRat(int64(tier.Requests), tier.Period.Microseconds()),
		tokens: big.NewRat(int64(tier.Burst), 1), at: at,
	}
}

func (r *reference) take(now int64, n int) int {
	if now > r.at {
		r.tokens.Add(r.tokens, new(big.Rat).Mul(r.rate, big.NewRat(now-r.at, 1)))
		if r.tokens.Cmp(r.burst) > 0 {
			r.tokens.Set(r.burst)
		}
		r.at = now
	}
	granted := min(n, int(new(big.Int).Quo(r.tokens.Num(), r.tokens.Denom()).Int64()))
	r.tokens.Sub(r.tokens, big.NewRat(int64(granted), 1))
	return granted
}

func anyTier(t *rapid.T) keys.Tier {
	return keys.Tier{
		Requests: rapid.IntRange(1, 100_000).Draw(t, "requests"),
		Period:   time.Duration(rapid.Int64Range(1_000, 100_000_000).Draw(t, "period")) * time.Microsecond,
		Burst:    rapid.IntRange(1, 10_000).Draw(t, "burst"),
	}
}

func TestGrantsAreExactlyThoseOfAContinuousBucket(t *testing.T) {
	c := newScriptClient(t)
	rapid.Check(t, func(rt *rapid.T) {
		tier := anyTier(rt)
		c.rdb.Del(t.Context(), c.name)
		record := someRecord(tier)
		if !c.put(rt, c.ticket(rt), record) {
			rt.Fatal("put was refused")
		}
		want := newReference(tier, c.now)
		perToken := max(tier.Period.Microseconds()/int64(tier.Requests), 1)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			c.now += rapid.Int64Range(0, 4*perToken).Draw(rt, "pause")
			n := rapid.IntRange(1, min(tier.Burst+2, 300)).Draw(rt, "n")
			got := c.check(rt, n)
			if got.status != statusActive || got.identity != record.Identity {
				rt.Fatalf("got %+v", got)
			}
			if granted := want.take(c.now, n); got.granted != granted {
				rt.Fatalf("asked for %d: granted %d, the bucket holds %d", n, got.granted, granted)
			}
		}
	})
}

func TestACoalescedAskIsGrantedWhatSingleAsksWouldBe(t *testing.T) {
	c := newScriptClient(t)
	rapid.Check(t, func(rt *rapid.T) {
		tier := anyTier(rt)
		n := rapid.IntRange(1, 40).Draw(rt, "n")
		spend := rapid.IntRange(0, min(tier.Burst, 1000)).Draw(rt, "spend")
		grants := func(together bool) (granted int) {
			c.rdb.Del(t.Context(), c.name)
			c.put(rt, c.ticket(rt), someRecord(tier))
			if spend > 0 {
				c.check(rt, spend)
			}
			if together {
				return c.check(rt, n).granted
			}
			for range n {
				granted += c.check(rt, 1).granted
			}
			return granted
		}
		if together, apart := grants(true), grants(false); together != apart {
			rt.Fatalf("%d together, %d apart", together, apart)
		}
	})
}

func TestAClockThatGoesBackNeitherGrantsNorStarves(t *testing.T) {
	c := newScriptClient(t)
	tier := keys.Tier{Requests: 1, Period: time.Second, Burst: 2}
	c.put(t, c.ticket(t), someRecord(tier))
	if got := c.check(t, 3); got.granted != 2 {
		t.Fatalf("full bucket: got %d", got.granted)
	}
	c.now -= time.Hour.Microseconds()
	if got := c.check(t, 1); got.granted != 0 {
		t.Errorf("an hour back: got %d", got.granted)
	}
	c.now += time.Second.Microseconds()
	if got := c.check(t, 1); got.granted != 1 {
		t.Errorf("a second later: got %d", got.granted)
	}
}

func TestATierChangeKeepsWhatWasTaken(t *testing.T) {
	c := newScriptClient(t)
	record := someRecord(keys.Tier{Requests: 10, Period: time.Minute, Burst: 10})
	c.put(t, c.ticket(t), record)
	c.check(t, 4)
	record.Version, record.Tier = 2, keys.Tier{Requests: 100, Period: time.Hour, Burst: 100}
	c.announce(t, record)
	if got := c.check(t, 200); got.granted != 96 {
		t.Errorf("raised: got %d", got.granted)
	}
	record.Version, record.Tier = 3, keys.Tier{Requests: 10, Period: time.Hour, Burst: 10}
	c.announce(t, record)
	if got := c.check(t, 1); got.granted != 0 || got.level < 0 {
		t.Errorf("lowered: got %+v", got)
	}
}

func TestAnOlderVersionNeverReplacesANewer(t *testing.T) {
	c := newScriptClient(t)
	record := someRecord(keys.Tier{Requests: 10, Period: time.Minute, Burst: 10})
	record.Version = 5
	c.put(t, c.ticket(t), record)
	late := record
	late.Version, late.Tier.Requests = 4, 99
	c.announce(t, late)
	if got := c.check(t, 1); int(got.rate.requests*got.rate.scale) != 10 {
		t.Errorf("got %+v", got.rate)
	}
}
