// Command bench measures examprep against baselines that do the least that the same result can cost (make bench):
//
//	bench [-duration 5s] [-only gate,rivals,fairness,attempts,publish,history,hostile,keys,webhooks,operator,operatorgzip,operatorinline]
//	      [-history-attempts 1000000] [-keys 1000000] [-examcontents 10000]
//
// It brings up a PostgreSQL and a Redis of its own as `dev up` does (durable: fsync and an append-only file), builds
// the program, and starts `examprep api` and `examprep worker` as processes beside the baselines' and its own, which is
// the load generator. Everything that answers is the real thing. The HTTP load comes from one goroutine, which the kernel
// tells what connections to serve: what a load costs is taken from what it measures. Machines drift by half over
// minutes, so nothing is asserted: each figure is a ratio to a baseline of the same run, and what is weighed against each
// other is measured in turns. Server, stores and load generator share the machine's cores, so cost is counted where it
// arises: CPU-µs per operation by process (/proc/PID/stat; of PostgreSQL, its children too) beside operations/s and
// percentiles. The targets printed beside the ratios are the design's. A pod of the API computes on one core, as those of
// the chart do (api.processors), and so does the bare server that it is compared with; other rivals are as their users
// start them.
//
// gate: GET of an overview of 4 KB by 64 connections with 1,000 keys, each request authenticated and rate-limited.
// Baseline: a fasthttp server that sends the same bytes and headers and knows nothing, plus the gate's script, called by
// redis-benchmark with 16 keys a call on records like the gate's own. The script is also compared with a GET of the same
// records, 16 in a pipeline. Latency is measured again at half the rate, by a schedule: a request that had to wait for its
// connection has waited. Allocations are those of the whole process, as its runtime counts them, beside bare fasthttp's. In
// this part and the next two there are 5 turns of half the duration each, 15 where it says so, in keys 15 of a sixth; figures
// are the median turn's, ratios the median of the turns' ratios.
//
// All processors are for all there, and the kernel puts a server now beside its client, now beside its store, for seconds
// at a time: the same API with Redis took 15 to 18 µs, the same bare server 10 to 13, and their ratio in single turns of
// one run was 1.07 to 1.57. So that comparison has 15 turns of half the duration. Five more are taken, and printed but not
// judged, in which what answers (the API with Redis; the bare server; Redis) has the first processor and who asks the
// others. That swings less, and is the placement that costs least: with Redis on another processor than the pod, both
// together took 2 µs more.
//
// rivals: the same GET, keys and connections, answered by others that check the key and limit it, in turns. Here it is
// requests/s of the whole machine that are compared, so the API runs in as many pods as the chart has of it by itself (two
// of one core each, api.replicas; connections are spread over them), as nginx has a worker a core and fiber all cores:
//   - nginx + lua (Debian's packages, installed if need be), a worker a core: the key's form and hash, then the gate's own
//     script by EVALSHA, one call a request over kept connections, on the records that the API has put into Redis.
//     hack/bench/nginx has the code.
//   - fiber + github.com/go-redis/redis_rate: the key's form and hash, a GET of its record (or, in a row that has no
//     target, its record from memory: revocation would then not be immediate), then redis_rate. hack/bench/fiber has the
//     code, in a module of its own.
//
// Before anything is measured each is asked: the API's bytes and headers with a good key, 401 with bad ones, 429 with one
// that is used up. It fails loudly where one does otherwise; where something cannot be installed or downloaded, it says
// which comparison it leaves out and why.
//
// fairness: 1,000 keys within their limits ask 4,000 times a second, by a schedule, alone and beside a key that sends 50
// times its limit over 8 connections of its own, in 15 turns: of 120 a minute, and for information of 100 a second. Redis'
// script calls are counted (INFO commandstats) while only that key sends, less those of an idle pod; and while a key that
// is used up asks as fast as it gets answers.
//
// keys: GET with 10⁶ keys (or as many as -keys says), Zipf-distributed (1.01), in turns with the same over 1,000 keys and
// with 1,000 keys one after the other. The keys are copied into PostgreSQL and used once each, through another pod that
// is then stopped (minutes), and that use is added to the usage; Redis' used_memory before and after tells what a key takes.
// What use costs PostgreSQL comes up to a minute after the request, in moments that the median turn leaves out or that fall to
// another's turn: a line of its own has PostgreSQL's CPU over all turns of the three, until all use is in the usage.
//
// attempts: open, then submit, by 64 connections. Baseline: pgbench with as many, running the product's own statements
// (cut out of server/postgres/queries) as often as the API did, without the API around them. The tables are analysed
// before each, as autovacuum does within a minute: statements prepared while a table is empty keep scanning it.
//
// publish: exams of 10 papers of 100 questions through the publisher that the operator uses. Baseline: COPY of the rows
// that this wrote into the same tables under other exam keys.
//
// history: pages and total of a key that has a tenth of 10⁶ attempts, or of as many as -history-attempts says (10⁷ take
// minutes and 6 GB), and of a learner who has a tenth of those. Baseline: the same of a key with 1,000 attempts, from
// another pod and another database of the same PostgreSQL, asked in turn. PostgreSQL has its default of 128 MB of shared
// buffers, so that "any page" comes from the kernel's cache or from disk.
//
// hostile: a healthy client asks 300 times a second on a key of its own, by a schedule, while another process, niced to
// 10, attacks from one address (the healthy client's own) or many: a byte a second, idle connections, bodies of 1 GB,
// bodies that never end, bad keys. Baseline: the same client without the attack, in turns. Resident memory of the API is
// printed before, at its peak (reset in the kernel for each turn) and after. "refused/s" is what the API took of what
// was offered; the rest waited in its senders' sockets.
//
// webhooks, each endpoint on a host (a loopback address) of its own, over HTTPS:
//   - What one worker delivers of a backlog to four endpoints. Baseline, in turns: as many goroutines as it has places for
//     them, posting the same signed bodies to the same receiver with the same client settings, and nothing written down.
//     The share of CPU is printed beside the ratio of rates: it says the same and minds other load on the machine less.
//   - 100 events/s to 14 healthy endpoints, from commit to receipt, and the same beside 6 bad ones (they hang, refuse, fail,
//     drip, flood) that are new in each turn, with the worker's peak memory (reset in the kernel for each turn).
//   - The cost of a delivery while 10⁶ others wait for a retry, and while as many are due at a receiver that hangs, put off
//     as a worker does that has no room for them. Baseline: the same while 10³ do, with two other workers on two other
//     databases of the same PostgreSQL, in turn. How far those two are apart is printed for each turn: the target allows
//     for as much, and means no more.
//   - 1, 2 and 4 workers, in turns: with a backlog that needs all cores, where only its cost can tell of their number, and
//     with a receiver that takes 200 ms, where each worker adds what it may have in flight.
//
// operator: ExamContents of 5 papers of 40 questions (85 KB), each paper a chunk of a ConfigMap, through a kube-apiserver
// and etcd that keep what they are told on disk, `examprep operator` and a PostgreSQL that counts statements, all new for
// each size: 1,000, as many as -examcontents says (-examcontents 1000 leaves them out), and 1,000 again, since within a
// quarter of an hour the machine itself gets faster or slower; the restart with the many is between two with the first
// 1,000, which stay for it. Of each size:
//   - All are applied by server-side apply, 4 at once, while the operator runs: from the first apply to the last Ready, as
//     somebody sees who watches the printed columns. What applying alone took is printed beside it: where the two are
//     close, the API server that both use was the bound.
//   - New ones are applied one after the other, otherwise idle and again while all others are refreshed after a restart.
//   - The operator is stopped by SIGTERM and started: until it has listed all, and until it has nothing left to do. Every
//     reconcile finds nothing to do then: requests that write one of our kinds, by the API server's own metrics, and events
//     of them, and statements, by pg_stat_statements, both less those of an operator that watches nothing.
//   - 1,000 more are applied while it is away, so that the loader is not the bound; then it is started. What the applying
//     alone took is what the API server needs before any operator is there.
//
// operatorgzip: the same for 1,000 whose chunks are compressed: a quarter of the bytes, which the API server reads as YAML when
// they are applied.
//
// operatorinline: the same for 1,000 that hold their questions themselves. The API server decodes, validates and encodes
// such a resource as a whole at each of its writes, the finalizer's and the status's too, and sends it to each watcher.
//
// Memory is the peak that the kernel notes for the operator's process. The share of a core that a resync of all takes each
// ten minutes is that of the restart's reconciles, in all four processes together.
//
// profile, where -only names it: the API under the gate's load for so long, whose CPU profile is written to default.pgo
// (make pgo) for the compiler of make build.
//
// Not measured here: growth of anything but history, keys and ExamContents.
//
// It fails when something does not start or answers wrongly, never because of a ratio. It imports the product's packages
// to prepare data and to publish; the product must never import it.
package main
