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
// How use is counted. Each API pod has a [Meter] that counts the requests of each key by UTC day, those that the gate let
// pass and those that it refused for the rate, and keeps when the key was last used: nothing is written per request. Once an
// interval, and when it stops, a pod writes what it counted to key_usage_batches: arrays of thousands of keys, which cost
// the database next to nothing. Whichever pod comes first when a share of the keys is old enough there adds to key_usage
// what all pods wrote of it ([Meter.RollUp]), one share after the other: what many pods and many moments counted of a key is
// one change of its row, and changes never come all at once. Usage is therefore told within a minute. One pod at a time is at
// a share; what is too much for the database at once is added bit by bit; and how long the oldest has waited is told
// (examprep_key_usage_oldest_batch_age_seconds).
//
// Each process is a writer with a number for each of its batches, which the statement that writes the batch raises
// (key_usage_writers); a batch that is sent again because nobody knows what became of it is there once. A roll-up takes
// batches away in the statement that adds them. What is lost: the last interval of a pod that is killed, keys beyond the
// meter's memory while PostgreSQL is away, and what a pod that ends could not write, though it begins when it is told to end
// and has two seconds more after its last request (examprep_key_usage_lost_total). Nothing is ever counted twice.
//
// When a key was last used stands in key_usage, in the row of that day; its own row has the first use of a day that a
// roll-up found, so that it is written once a day however many keys there are. That comes after the usage and waits for
// nobody: a key that is being changed just then is noted by a later one. A key's own row is a day behind after a process that
// dies between the two, where the answer of a roll-up is lost or comes when its time is over, and where more such keys wait
// than the meter remembers. Whoever reads asks the view api_key_uses, which is right all the same.
// Usage is kept; who keeps no books so long deletes old days from key_usage, and sees of a key that was not used since
// only a time of the day when it was.
//
// Mistakes of a caller are *UnknownKeyError, *UnknownTierError, *InvalidError, *RetiredKeyError, *LimitError,
// *ManagedTierError and *TooMuchUsageError; all else is pgx's error, wrapped. No key is ever logged or put into an error.
//
// Who changes a key is recorded in the transaction that does it (server/audit).
//
// It knows neither HTTP nor Kubernetes nor Redis, and must never import the gate, which imports it.
package keys
