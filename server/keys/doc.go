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
// Mistakes of a caller are *UnknownKeyError, *UnknownTierError, *InvalidError, *RetiredKeyError,
// *LimitError and *ManagedTierError;
// all else is pgx's error, wrapped. No key is ever logged or put into an error.
//
// Who changes a key is recorded in the transaction that does it (server/audit).
//
// It knows neither HTTP nor Kubernetes nor Redis, and must never import the gate, which imports it.
package keys
