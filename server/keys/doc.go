// Package keys owns API keys, the accounts they belong to, and the rate tiers that apply to them.
//
// A key is `service_` + 40 random hexadecimal digits + 8 that check the rest (CRC32), so a mistyped key is refused
// without a look-up and secret scanners recognise one. Only its SHA-256 is stored; the text is in [Issued] once and
// nowhere else. `service_` and the first 8 digits are the key's prefix: unique, public, how people name it.
//
// Which tier applies. The key's own tier (set by [Store.SetTier] or at creation), else the tier that names the key's
// prefix, else the tier that names its account, else "default"; among several of a kind, the first by name. The view
// api_key_records is the only place where this is decided.
//
// How a change reaches the gates. Every change that a gate must see raises the key's version in the transaction that
// makes it, is then announced to Redis ([Announcer]), and is answered last. A row whose announced_version lags behind
// its version has not been announced: any gate that finds such a row announces it, so a process that dies between
// commit and announcement loses nothing. If the caller's time runs out between the two, the change is still durable and
// the error is [*NotAnnouncedError].
//
// A change of a tier may concern every key there is. Its transaction therefore lists the keys to which the tier applied
// before and those to which it applies after (key_raises); their versions are raised after it, a chunk at a time, and
// each chunk is announced before the next is raised. A revocation waits for none of that, no gate ever has more than a
// chunk to catch up with, and a process that dies in between leaves the list to whoever applies a tier next. Meanwhile a
// key has its old allowance or its new one.
//
// Requests are counted, and the last use of a key is kept, by server/usage; the view api_key_uses has the latter.
//
// Mistakes of a caller are *UnknownKeyError, *UnknownTierError, *InvalidError, *RetiredKeyError, *LimitError
// and *ManagedTierError; all else is pgx's error, wrapped. No key is ever logged or put into an error.
//
// Who changes a key is recorded in the transaction that does it (server/audit).
//
// It knows neither HTTP nor Kubernetes nor Redis, and must never import the gate, which imports it.
package keys
