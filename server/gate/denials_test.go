package gate

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
)

// moment is something that happens to the denials of one key, so long after the first.
type moment struct {
	at time.Duration
	do func(d *denials, now time.Time) (got, want standing)
}

// asks is a request that finds what it should.
func asks(at time.Duration, want standing) moment {
	return moment{at, func(d *denials, now time.Time) (standing, standing) {
		_, got := d.find(numbered(1), func() time.Time { return now }, &Decision{})
		return got, want
	}}
}

// empty is an answer that leaves nothing in a bucket of that tier.
func empty(at time.Duration, tier keys.Tier) moment {
	return moment{at, func(d *denials, now time.Time) (standing, standing) {
		d.remember(numbered(1), now, rateOf(tier), 0, uuid.Nil, Decision{})
		return unknown, unknown
	}}
}

// claimerLearns is the answer to who was told to ask: so many tokens are left.
func claimerLearns(at time.Duration, remaining int) moment {
	return moment{at, func(d *denials, _ time.Time) (standing, standing) {
		d.answered(numbered(1), &Decision{Remaining: remaining})
		return unknown, unknown
	}}
}

func TestADenialLetsOneAskInGoodTime(t *testing.T) {
	const ms = time.Millisecond
	slow := keys.Tier{Requests: 20, Period: time.Hour, Burst: 20}           // a token in 3 minutes
	fast := keys.Tier{Requests: 100, Period: time.Second, Burst: 1}         // in 10 ms
	second := keys.Tier{Requests: 1, Period: time.Second, Burst: 1}         // in 1 s
	due := keys.Tier{Requests: 1, Period: 490 * time.Millisecond, Burst: 1} // just before half a second is over
	for name, moments := range map[string][]moment{
		"one asks after half a second":     {empty(0, slow), asks(499*ms, denied), asks(500*ms, claimed), asks(500*ms, denied)},
		"or when a token is due":           {empty(0, due), asks(489*ms, denied), asks(490*ms, claimed), asks(491*ms, denied)},
		"who asks dies":                    {empty(0, slow), asks(600*ms, claimed), asks(624*ms, denied), asks(625*ms, unknown), asks(625*ms, unknown)},
		"a second token may be there":      {empty(0, fast), asks(9*ms, denied), asks(12*ms, claimed), asks(19*ms, denied), asks(20*ms, unknown)},
		"who asks comes late":              {empty(0, slow), asks(990*ms, claimed), asks(999*ms, denied), asks(1000*ms, unknown)},
		"nobody came for a second":         {empty(0, slow), asks(1000*ms, unknown), asks(1000*ms, unknown)},
		"a minute later":                   {empty(0, slow), asks(time.Minute, unknown), asks(time.Minute, unknown)},
		"the answer is another denial":     {empty(0, slow), asks(500*ms, claimed), empty(503*ms, second), claimerLearns(503*ms, 0), asks(504*ms, denied), asks(1003*ms, claimed)},
		"the answer says nothing":          {empty(0, slow), asks(500*ms, claimed), claimerLearns(503*ms, 0), asks(504*ms, denied), asks(525*ms, unknown)},
		"the answer leaves tokens":         {empty(0, slow), asks(500*ms, claimed), asks(501*ms, denied), claimerLearns(502*ms, 1), asks(502*ms, unknown), asks(502*ms, unknown)},
		"another denial before the answer": {empty(0, slow), asks(500*ms, claimed), empty(501*ms, slow), claimerLearns(502*ms, 1), asks(503*ms, denied)},
	} {
		t.Run(name, func(t *testing.T) {
			d, start := newDenials(), time.Unix(1_000_000, 0)
			for i, m := range moments {
				if got, want := m.do(d, start.Add(m.at)); got != want {
					t.Errorf("moment %d, after %v: %d, want %d", i, m.at, got, want)
				}
			}
		})
	}
}

// TestDenialsThatAreOverMakeRoom: the tier is a slow one, whose denials have long been over when a token is due.
func TestDenialsThatAreOverMakeRoom(t *testing.T) {
	d, now := newDenials(), time.Unix(1_000_000, 0)
	r := rateOf(keys.Tier{Requests: 20, Period: time.Hour, Burst: 20})
	remember := func(n int) {
		s := numbered(1)
		s.id[1], s.id[2] = byte(n), byte(n>>8)
		d.remember(s, now, r, 0, uuid.Nil, Decision{})
	}
	for n := range denialsPerShard {
		remember(n)
	}
	entries := d.shard(numbered(1)).entries
	if len(entries) != denialsPerShard {
		t.Fatalf("%d are remembered", len(entries))
	}
	now = now.Add(2 * longestDenial)
	if remember(denialsPerShard); len(entries) != 1 {
		t.Errorf("%d are remembered when all but one are over", len(entries))
	}
	for n := range 3 * denialsPerShard {
		if remember(n); len(entries) > denialsPerShard {
			t.Fatalf("%d are remembered", len(entries))
		}
	}
}

// BenchmarkFind is what the denials cost a request that none is about.
func BenchmarkFind(b *testing.B) {
	for name, remembered := range map[string]byte{"of nobody": 0, "of others": 200} {
		b.Run(name, func(b *testing.B) {
			d := newDenials()
			for n := range remembered {
				d.remember(numbered(n+2), time.Now(), rateOf(keys.Default()), 0, uuid.Nil, Decision{})
			}
			asking := numbered(1)
			for b.Loop() {
				d.find(asking, time.Now, &Decision{})
			}
		})
	}
}
