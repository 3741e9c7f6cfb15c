package directory

import (
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/keysdb"
)

// tiers are all rate tiers as of one moment. They are never changed.
type tiers struct {
	own        []*keys.Tier // by the index in contents.names
	byPrefix   map[uint32]*keys.Tier
	byAccount  map[uuid.UUID]*keys.Tier
	standard   *keys.Tier
	unreadable int
}

// resolve returns the tier that applies to a key, nil if it cannot be read: the key's own, else the tier that names its prefix,
// else the tier that names its account, else "default". The first by name counts. Nothing else decides this.
func (t *tiers) resolve(e *entry) *keys.Tier {
	if e.tier != 0 {
		if int(e.tier) < len(t.own) {
			return t.own[e.tier]
		}
		return nil
	}
	if tier, ok := t.byPrefix[e.prefix]; ok {
		return tier
	}
	if tier, ok := t.byAccount[e.account]; ok {
		return tier
	}
	return t.standard
}

// setTiers replaces the tiers by rows, which are sorted by name. An unreadable tier is nil: its keys are refused. Only
// "default" then becomes the specification's allowance.
func (c *contents) setTiers(rows []keysdb.TiersForDirectoryRow) {
	t := &tiers{byPrefix: map[uint32]*keys.Tier{}, byAccount: map[uuid.UUID]*keys.Tier{}, standard: standardTier()}
	byName := map[string]*keys.Tier{}
	for _, row := range rows {
		tier := &keys.Tier{
			Name: row.Name, Requests: int(row.Requests), Period: time.Duration(row.PeriodUs) * time.Microsecond, Burst: int(row.Burst),
		}
		if err := tier.Validate(); err != nil {
			t.unreadable++
			tier = nil
		}
		byName[row.Name] = tier
		if row.Name == keys.DefaultTier && tier != nil {
			t.standard = tier
		}
		for _, prefix := range row.KeyPrefixes {
			if number, ok := prefixNumber([]byte(prefix)); ok { // else no key has it
				setIfAbsent(t.byPrefix, number, tier)
			}
		}
		for _, account := range row.AccountIds {
			setIfAbsent(t.byAccount, account, tier)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.own = make([]*keys.Tier, len(c.names))
	for i, name := range c.names {
		t.own[i] = byName[name]
		if name == keys.DefaultTier && t.own[i] == nil {
			t.own[i] = t.standard
		}
	}
	c.tiers.Store(t)
}

func setIfAbsent[K comparable, V any](m map[K]V, key K, value V) {
	if _, ok := m[key]; !ok {
		m[key] = value
	}
}
