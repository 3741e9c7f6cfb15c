package gate

import (
	"context"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
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
	name   string // of the hash of records
	key    subject
	now    int64 // µs
}

func newScriptClient(t testing.TB) *scriptClient {
	t.Helper()
	rdb, prefix := testkit.Redis(t)
	return &scriptClient{rdb: rdb, script: clockedScript(t), term: termBytes(1), name: prefix + "gate:{keys}", now: 1_700_000_000_000_000}
}

func (c *scriptClient) do(t interface{ Fatal(args ...any) }, operation string, args ...any) *redis.Cmd {
	return c.doOn(t, []string{c.name}, operation, args...)
}

func (c *scriptClient) doOn(t interface{ Fatal(args ...any) }, names []string, operation string, args ...any) *redis.Cmd {
	argv := append([]any{operation, c.term}, args...)
	argv = append(argv, c.now/1_000_000, c.now%1_000_000)
	cmd := c.script.Run(context.Background(), c.rdb, names, argv...)
	if cmd.Err() != nil {
		t.Fatal(cmd.Err())
	}
	return cmd
}

func (c *scriptClient) ticket(t interface{ Fatal(args ...any) }) string {
	ticket, _ := c.do(t, "t", c.key.field(), newTicket()).Text()
	return ticket
}

func (c *scriptClient) put(t interface{ Fatal(args ...any) }, ticket string, record keys.Record) bool {
	stored, _ := c.do(t, "p", c.key.field(), ticket, versionBytes(record.Version), staticBytes(record)).Bool()
	return stored
}

func (c *scriptClient) announce(t interface{ Fatal(args ...any) }, record keys.Record) {
	c.do(t, "a", 1, c.key.field(), versionBytes(record.Version), staticBytes(record))
}

func (c *scriptClient) check(t interface{ Fatal(args ...any) }, n int) verdict {
	a := &ask{subject: c.key, n: n}
	c.checkMany(t, a)
	return a.outcome.verdict
}

// checkMany asks about several subjects in one call, as a gate does. Addresses have one token a second, and two at once.
func (c *scriptClient) checkMany(t interface{ Fatal(args ...any) }, asks ...*ask) {
	g := &Gate{cfg: Config{Prefix: c.name}, anonymous: anonymous{args: [3]any{1_000_000, 1, 2}}}
	args := g.arguments(&scratch{}, &trust{}, c.name, asks)
	const first = 3 // evalsha, its name and the number of names stand before
	names := []string{c.name}
	for _, name := range args[first+1:] {
		if name == "c" {
			break
		}
		text, _ := name.(*string)
		names = append(names, *text)
	}
	reply, _ := c.doOn(t, names, "c", args[first+len(names)+2:]...).Text()
	if err := readVerdicts(reply, asks); err != nil {
		t.Fatal(err)
	}
}

// held is what Redis has of the key.
func (c *scriptClient) held() string {
	return c.rdb.HGet(context.Background(), c.name, c.key.field()).Val()
}

// sweep goes once over all entries, and returns how many it deleted.
func (c *scriptClient) sweep(t interface{ Fatal(args ...any) }) (deleted int64) {
	var cursor uint64
	for {
		reply, err := c.do(t, "s", cursor, sweepCount).Slice()
		if err != nil {
			t.Fatal(err)
		}
		next, _, n, err := readSweep(reply)
		if err != nil {
			t.Fatal(err)
		}
		deleted += n
		if cursor = next; cursor == 0 {
			return deleted
		}
	}
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

// TestABatchAnswersEachAskAsItWouldAlone mixes keys of every kind and addresses in any order.
func TestABatchAnswersEachAskAsItWouldAlone(t *testing.T) {
	c := newScriptClient(t)
	prepare := func() {
		c.rdb.Del(t.Context(), c.name)
		for i := range byte(6) {
			c.key.id[0] = i
			record := someRecord(keys.Tier{Requests: 10, Period: time.Minute, Burst: int(i) + 1})
			record.Identity = keys.Identity{KeyID: uuid.UUID{i}, FamilyID: uuid.UUID{i, 1}, AccountID: uuid.UUID{i, 2}}
			switch i {
			case 0: // unknown
			case 1:
				record.Revoked = true
				c.announce(t, record)
			case 2:
				c.do(t, "p", c.key.field(), c.ticket(t), versionBytes(0), []byte{statusAbsent})
			case 3:
				record.ExpiresAt = time.UnixMicro(c.now)
				fallthrough
			default:
				c.put(t, c.ticket(t), record)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		c.now += time.Hour.Microseconds() // the addresses' buckets are full again
		order := rapid.Permutation([]byte{0, 1, 2, 3, 4, 5, 100, 101}).Draw(rt, "order")
		order = order[:rapid.IntRange(1, len(order)).Draw(rt, "asks")]
		var together, alone []*ask
		for _, id := range order {
			a := ask{n: rapid.IntRange(1, 7).Draw(rt, "n")}
			a.subject.address = id >= 100
			a.subject.id[0] = id
			twin := a
			together, alone = append(together, &a), append(alone, &twin)
		}
		again := func() []*ask { // what is left
			var left []*ask
			for id := range byte(6) {
				a := &ask{n: 9}
				a.subject.id[0] = id
				left = append(left, a)
			}
			c.checkMany(rt, left...)
			return left
		}
		prepare()
		c.checkMany(rt, together...)
		together = append(together, again()...)
		c.now += time.Hour.Microseconds()
		prepare()
		for _, a := range alone {
			c.checkMany(rt, a)
		}
		alone = append(alone, again()...)
		statuses := []byte{answerUnverified, statusRevoked, statusAbsent, statusRevoked, statusActive, statusActive}
		for i, a := range alone {
			if id := a.subject.id[0]; !a.subject.address && a.outcome.verdict.status != statuses[id] {
				rt.Fatalf("subject %d: %+v", id, a.outcome.verdict)
			}
			if got, want := together[i].outcome.verdict, a.outcome.verdict; got != want {
				rt.Fatalf("subject %d: together %+v, alone %+v", a.subject.id[0], got, want)
			}
		}
	})
}

func TestACallIsMadeAndReadWithoutAllocations(t *testing.T) {
	g := &Gate{cfg: Config{Prefix: "p:"}, records: []string{"hash"}}
	var asks []*ask
	for i := range byte(16) {
		a := &ask{n: 1}
		a.subject.id[0], a.subject.address = i, i == 7
		asks = append(asks, a)
	}
	reply := strings.Repeat("r", 15*recordSize) + strings.Repeat("\x01\x00", 15) + strings.Repeat("b", bucketSize)
	sc, tr := &scratch{}, &trust{}
	if n := testing.AllocsPerRun(100, func() {
		g.arguments(sc, tr, &g.records[0], asks)
		if err := readVerdicts(reply, asks); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzReadVerdicts(f *testing.F) {
	record := strings.Repeat("r", recordSize)
	f.Add("", uint8(0), uint8(0))
	f.Add(record+"\x01\x00", uint8(1), uint8(0))
	f.Add(record+"\xff\xff\x01\x00"+strings.Repeat("b", bucketSize), uint8(2), uint8(1))
	f.Add(record+record+"\x01\x00", uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, reply string, keyed, addresses uint8) {
		asks := make([]*ask, int(keyed)+int(addresses))
		for i := range asks {
			asks[i] = &ask{subject: subject{address: i >= int(keyed)}}
		}
		if readVerdicts(reply, asks) != nil {
			return
		}
		size := int(keyed)*grantSize + int(addresses)*bucketSize
		for _, a := range asks {
			v := a.outcome.verdict
			switch {
			case a.subject.address != (v.status == answerAddress):
				t.Errorf("address %v: status %d", a.subject.address, v.status)
			case v.status == statusActive:
				size += recordSize
			case v.status != answerAddress && (v.granted != 0 || v.identity != keys.Identity{}):
				t.Errorf("status %d with %+v", v.status, v)
			}
		}
		if size != len(reply) {
			t.Errorf("took a reply of %d bytes for one of %d", len(reply), size)
		}
	})
}
