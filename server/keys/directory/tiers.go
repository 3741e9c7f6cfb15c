package directory

import "examprep.dev/server/keys"

// tiers are all rate tiers as of one moment, with those of entries. They are never changed.
type tiers struct {
	*keys.Tiers

	own []*keys.Tier // by the index in contents.names
}

// resolve returns the tier that applies to a key, nil if it cannot be read.
func (t *tiers) resolve(e *entry) *keys.Tier {
	var own *keys.Tier
	if int(e.tier) < len(t.own) {
		own = t.own[e.tier]
	}
	return t.Resolve(own, e.tier != 0, e.prefix, e.account)
}

// setTiers replaces the tiers.
func (c *contents) setTiers(read *keys.Tiers) {
	t := &tiers{Tiers: read}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.own = make([]*keys.Tier, len(c.names))
	for i, name := range c.names {
		t.own[i] = t.Named(name)
	}
	c.tiers.Store(t)
}
