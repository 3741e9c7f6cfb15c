package gate

import "time"

// guesses bounds how often this pod looks in PostgreSQL for keys that do not exist: for each address, and for all of
// them together, since a flood may come from any number of addresses. When all have guessed too much, only addresses
// that guessed wrong of late are refused: who has a clean record still has a key loaded, so that a flood and a Redis
// that was emptied, at once, cost the holders of good keys nothing. Keys that exist never count, revoked ones neither.
type guesses struct {
	addresses *shares // what each address may still guess, and, under everyone, all of them
	suspects  *shares // empty for an address that guessed wrong of late
}

func newGuesses() *guesses { return &guesses{addresses: newShares(), suspects: newShares()} }

// everyone is no address and the hash of no key.
func everyone() *subject { return &subject{} }

// ofAddress is how often one address may be wrong: twice a second, 20 at once.
func ofAddress() rate { return rate{period: 500_000, requests: 1, burst: 20, scale: 1} }

// ofEveryone is how often all of them may be: 20 times a second, 50 at once.
func ofEveryone() rate { return rate{period: 50_000, requests: 1, burst: 50, scale: 1} }

// suspicion is how long a wrong guess is held against an address: 30 s.
func suspicion() rate { return rate{period: 30_000_000, requests: 1, burst: 1, scale: 1} }

// begin says whether address may have a key looked for now. Of an address that guessed wrong of late the look-up is counted
// at once, as reserved says, or those that begin together would slip past the bound.
func (g *guesses) begin(address *subject, now time.Time) (reserved, ok bool) {
	switch {
	case g.addresses.empty(address, ofAddress(), now):
		return false, false
	case !g.suspects.empty(address, suspicion(), now):
		return false, true
	}
	var taken outcome
	g.addresses.take(everyone(), ofEveryone(), now, &taken)
	return taken.allowed, taken.allowed
}

// wrong notes that address had a key looked for that does not exist.
func (g *guesses) wrong(address *subject, reserved bool, now time.Time) {
	var taken outcome
	g.addresses.take(address, ofAddress(), now, &taken)
	g.suspects.take(address, suspicion(), now, &taken)
	if !reserved {
		g.addresses.take(everyone(), ofEveryone(), now, &taken)
	}
}

// right gives back what was reserved for a key that exists, or that could not be looked for.
func (g *guesses) right(reserved bool, now time.Time) {
	if reserved {
		g.addresses.giveBack(everyone(), ofEveryone(), now)
	}
}
