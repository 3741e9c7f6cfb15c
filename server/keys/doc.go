// Package keys owns the API keys of accounts, and the rate tiers that apply to them.
//
// A key is `service_` + 40 random hexadecimal digits + 8 digits that check the rest (CRC32), so a mistyped key is refused
// without a look-up, and secret scanners recognise one. Only its SHA-256 is stored. Its text is in [CreatedKey] once, and in
// no error and no log. `service_` and the first 8 digits are the key's prefix: unique and public.
//
// A member's calls name the account by its id ([Store.Create], [Store.Rotate], [Store.Revoke], [Store.Page]); a key of another account
// does not exist for them, and no id stands for every account. An administrator's calls need no account ([Store.CreateFor],
// [Store.RevokeAny], [Store.SetTier], [Store.All]).
//
// # Which tier applies
//
// The key's own tier, else the tier that names the key's prefix, else the tier that names its account, else "default".
// Among several of a kind, the first by name. A key whose own tier does not exist counts as a key without one, until a tier
// of that name exists again. [Tiers.Resolve] is the only place that decides this.
//
// # How a change reaches the API pods
//
// Each pod holds all active keys in memory (package directory). [Store] commits a change and then waits until no pod goes by
// an older state ([Confirmer]). If that is not certain in time, the error is [*UnconfirmedError]: the change is committed,
// and the same change again waits again. A change of a tier, also its deletion, writes one row, however many keys have the tier.
// The database refuses a statement that changes more than 1,000 keys: pods have no lease while they apply so many changes.
//
// Each change of a key is recorded in its transaction (server/audit). server/usage counts requests and the last use.
//
// Errors that are not of the types here are errors of pgx, wrapped. The package knows neither HTTP nor Kubernetes nor
// Redis, and imports neither the directory nor the gate.
package keys
