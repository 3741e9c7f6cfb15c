// Package browsertest tests the console in Chromium, on the API, the worker, PostgreSQL, Redis and an OpenID Connect provider.
//
// A test finds things by their names, as a person does, and waits until the page shows what it needs. Nothing waits for a time. A
// window reports at its end what the browser complained about: an error of a script, or a refusal by the page's policy.
//
//	stage_test.go      API, worker, receiver and provider in this process
//	window_test.go     a window of a browser; find_test.go finds things in it
//	keys_test.go, webhooks_test.go, members_test.go, session_test.go
//	                   what developers do
//	keyboard_test.go   the same without a mouse
//	pages_test.go      accessibility of each page, and the pictures of docs/console.md
//	hostile_test.go    texts that are not markup
//	origins_test.go    pages of other origins
package browsertest
