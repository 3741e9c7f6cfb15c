// Package healthchecks tests the health checks that ship in config: Argo CD's Lua (config/argocd) in a Lua machine with
// the libraries that Argo CD gives it, Flux's CEL (config/flux) by the rules of its RFC 0009, and kstatus, which both
// Flux and others read resources with, as it is. Each is asked about resources as the real operator left them: the files
// below config/argocd/resource_customizations/examprep.dev/*/testdata, which the tests of controllers keep up to date.
//
// It is a module of its own, so that the program does not depend on what only these tests need.
package healthchecks
