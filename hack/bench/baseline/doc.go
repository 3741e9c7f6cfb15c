// Package baseline has what make bench compares examprep with: servers, scripts and statements that do the least that the
// same result can cost.
//
//	bare.go                       a fasthttp server that sends fixed bytes
//	posts.go                      a loop of signed POSTs
//	take.lua                      one token from each of several buckets in Redis
//	nginx.conf, gate.lua          nginx that checks a key, calls take.lua and sends fixed bytes
//	schema.sql                    tables of attempts, events and papers, with the indexes that they had at commit 220ae0e
//	open.sql, submit.sql          one statement per open and per submit, for pgbench
//	copy_papers.sql, copy_keys.sql  COPY of papers and answer keys
//
// The files are frozen: when the product gets faster, its ratio to them falls. So nothing here imports the product, reads its
// sources, or uses its tables or its data in Redis. A change here makes all earlier figures incomparable; docs/performance.md
// must then say so.
package baseline
