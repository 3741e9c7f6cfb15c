// Command record records what an examprep server answers, byte by byte, and compares two recordings. It guards changes of
// the HTTP layer: the recording of the server before and the one after are equal but for the differences that are listed.
//
// Capture takes a built binary and throw-away servers. It makes a database, publishes exams, creates keys, starts the API,
// plays the script, and drops the database. It takes about 90 seconds; the longest exchange waits for an idle connection to
// be closed. To record the server of commit 220ae0e and another one, with DATABASE_URL and REDIS_URL set:
//
//	git worktree add ../base 220ae0e && CGO_ENABLED=0 go -C ../base build -trimpath -o /tmp/base-examprep .
//	go run ./hack/record capture -binary /tmp/base-examprep -o /tmp/base.jsonl
//	CGO_ENABLED=0 go build -trimpath -o /tmp/examprep . && go run ./hack/record capture -binary /tmp/examprep -o /tmp/new.jsonl
//
// Compare prints each difference, and the lines of the list that allow none; it then exits with status 1:
//
//	go run ./hack/record compare -allow hack/record/since-220ae0e.txt /tmp/base.jsonl /tmp/new.jsonl
//
// A line of the list has a pattern for the exchange, one for the part, and the reason:
//
//	hostile-lines/*  header.x-request-id  an unreadable request gets a new id
//	catalog/list*    header.Etag          SHA-256 instead of FNV
//
// Two captures of one binary are equal. Where they are not, the exchange or its normalising is at fault.
//
// The stage sets up the server, the script lists the exchanges, play plays them, wire sends bytes, normalise replaces what
// changes from run to run, and recording keeps and compares. It needs Linux: connections come from many loopback addresses.
package main
