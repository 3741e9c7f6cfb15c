// Command prose checks comments, help texts, messages and documents for wording that readers stumble over. Each rule
// (rules.go) finds one pattern and names the plain alternative. A rule belongs here only if it is almost never wrong;
// reviewers judge the rest of style. `make lint` runs the check.
//
// It reads the files that git tracks: Markdown, Go comments, YAML, and the comments of SQL, Lua, shell scripts and
// Makefiles. In Go files that are not tests it also reads strings of at least four words: help texts, errors, log
// messages. It skips blocks of code, code spans, generated files and folders named testdata. To quote wording that a
// rule finds, put it in backticks.
//
// The file hack/lint/prose-offenders.txt lists, sorted, the files that are not rewritten yet. Their findings are not
// reported. A listed file that has no findings, or does not exist, is an error, so the list only shrinks. This prints
// the findings of listed files too:
//
//	go -C hack/lint run ./prose -root $PWD -all
package main
