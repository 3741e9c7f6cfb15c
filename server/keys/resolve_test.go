package keys_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/keysdb"
	"examprep.dev/server/testkit/check"
)

func TestTierOfAKeyIsResolvedByOneRule(t *testing.T) {
	t.Parallel()
	const prefix, other = "service_0123abcd", "service_ffffffff"
	account, stranger := uuid.New(), uuid.New()
	valid := func(name string) keysdb.TiersForDirectoryRow {
		return keysdb.TiersForDirectoryRow{Name: name, Requests: 5, PeriodSeconds: 1, Burst: 5}
	}
	naming := func(name string, prefixes []string, accounts ...uuid.UUID) keysdb.TiersForDirectoryRow {
		row := valid(name)
		row.KeyPrefixes, row.AccountIds = prefixes, accounts
		return row
	}
	unreadable := func(row keysdb.TiersForDirectoryRow) keysdb.TiersForDirectoryRow {
		row.Requests = 0
		return row
	}
	byPrefix, byAccount := []string{prefix}, []uuid.UUID{account}
	const refused = "" // no tier applies: the key is refused
	for name, c := range map[string]struct {
		rows       []keysdb.TiersForDirectoryRow // sorted by name, as PostgreSQL returns them
		own        string                        // name of the key's own tier; empty: it has none
		want       string
		unreadable int
	}{
		"no tiers":                {want: keys.DefaultTier},
		"default":                 {rows: []keysdb.TiersForDirectoryRow{valid("default"), valid("gold")}, want: "default"},
		"account before default":  {rows: []keysdb.TiersForDirectoryRow{valid("default"), naming("gold", nil, byAccount...)}, want: "gold"},
		"prefix before account":   {rows: []keysdb.TiersForDirectoryRow{naming("a", nil, account), naming("z", byPrefix)}, want: "z"},
		"own before prefix":       {rows: []keysdb.TiersForDirectoryRow{naming("a", byPrefix, account), valid("own")}, own: "own", want: "own"},
		"own default":             {rows: []keysdb.TiersForDirectoryRow{naming("a", byPrefix)}, own: keys.DefaultTier, want: keys.DefaultTier},
		"first name by account":   {rows: []keysdb.TiersForDirectoryRow{naming("a", nil, stranger), naming("b", nil, account), naming("c", nil, account)}, want: "b"},
		"first name by prefix":    {rows: []keysdb.TiersForDirectoryRow{naming("a", []string{other}), naming("b", byPrefix), naming("c", byPrefix)}, want: "b"},
		"one tier by both":        {rows: []keysdb.TiersForDirectoryRow{naming("a", byPrefix, account)}, want: "a"},
		"others only":             {rows: []keysdb.TiersForDirectoryRow{naming("a", []string{other}, stranger)}, want: keys.DefaultTier},
		"prefix of no key":        {rows: []keysdb.TiersForDirectoryRow{naming("a", []string{"0123abcd", "service_0123abc", "service_0123abcg", ""})}, want: keys.DefaultTier},
		"own is gone":             {own: "gold", want: keys.DefaultTier},
		"own is gone, by prefix":  {rows: []keysdb.TiersForDirectoryRow{naming("a", byPrefix)}, own: "gold", want: "a"},
		"unreadable own":          {rows: []keysdb.TiersForDirectoryRow{naming("a", byPrefix, account), unreadable(valid("own"))}, own: "own", want: refused, unreadable: 1},
		"unreadable by prefix":    {rows: []keysdb.TiersForDirectoryRow{unreadable(naming("a", byPrefix)), naming("b", byPrefix, account)}, want: refused, unreadable: 1},
		"unreadable by account":   {rows: []keysdb.TiersForDirectoryRow{unreadable(naming("a", nil, account)), naming("b", nil, account)}, want: refused, unreadable: 1},
		"unreadable of others":    {rows: []keysdb.TiersForDirectoryRow{unreadable(naming("a", []string{other}, stranger)), naming("b", byPrefix)}, want: "b", unreadable: 1},
		"later one is unreadable": {rows: []keysdb.TiersForDirectoryRow{naming("a", nil, account), unreadable(naming("b", nil, account))}, want: "a", unreadable: 1},
		"unreadable default":      {rows: []keysdb.TiersForDirectoryRow{unreadable(valid("default"))}, want: keys.DefaultTier, unreadable: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tiers := keys.NewTiers(c.rows)
			number, ok := keys.PrefixNumber([]byte(prefix))
			if !ok {
				t.Fatal("the prefix has no number")
			}
			got := refused
			own, exists := tiers.Named(c.own)
			if tier := tiers.Resolve(own, exists, number, account); tier != nil {
				got = tier.Name
			}
			if got != c.want || tiers.Unreadable != c.unreadable {
				t.Errorf("resolved %q with %d unreadable tiers, want %q with %d", got, tiers.Unreadable, c.want, c.unreadable)
			}
		})
	}
}

func TestUnreadableDefaultTierIsTheAllowanceOfTheSpecification(t *testing.T) {
	t.Parallel()
	changed := keysdb.TiersForDirectoryRow{Name: keys.DefaultTier, Requests: 5, PeriodSeconds: 1, Burst: 7}
	if got, want := *keys.NewTiers([]keysdb.TiersForDirectoryRow{changed}).Default(),
		(keys.Tier{Name: keys.DefaultTier, Requests: 5, Period: time.Second, Burst: 7}); got != want {
		t.Errorf("changed: got %+v, want %+v", got, want)
	}
	changed.PeriodSeconds = 0
	tiers := keys.NewTiers([]keysdb.TiersForDirectoryRow{changed})
	check.Equal(t, *tiers.Default(), keys.Default(), "unreadable")
	if got, exists := tiers.Named(keys.DefaultTier); !exists || got == nil || *got != keys.Default() {
		t.Errorf("unreadable, by name: got %+v, want %+v", got, keys.Default())
	}
}

func TestOnlyPrefixesHaveANumber(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]struct {
		number uint32
		ok     bool
	}{
		"service_00000000": {0, true}, "service_0123abcd": {0x0123abcd, true}, "service_ffffffff": {0xffffffff, true},
		"service_0123abc": {}, "service_0123abcd0": {}, "service_0123abcg": {}, "Service_0123abcd": {}, "0123abcd": {}, "": {},
	} {
		if number, ok := keys.PrefixNumber([]byte(prefix)); number != want.number || ok != want.ok {
			t.Errorf("%q: got %#x, %t, want %#x, %t", prefix, number, ok, want.number, want.ok)
		}
	}
}
