// Package docs has no code. Its tests check the Markdown pages: citations name existing parts of spec.md, links resolve,
// README.md leads to every page, and the files and tests that pages name exist. Tests of server/command parse the pages'
// command lines; hack/e2e, hack/receiver and server/command run some of them.
package docs
