// Package npm installs the packages that tests, lint and `make generate` take from npm, pinned by package-lock.json to their
// digests. They are a certified OpenID Connect provider, a linter for OpenAPI documents, TypeScript, the modules that the
// console copies, and Node itself: the machine's own version of these may be too old.
//
// TypeScript stays at the newest 5: openapi-typescript accepts no later one.
//
// They are installed once per package-lock.json into the user's cache, under a lock: of two runs at once one installs and
// the other waits. The directory gets its name when it is complete, so a killed run leaves nothing that looks finished. No
// script of any package is run. `make deps` installs npm itself.
//
// To change a version, edit package.json and run, in this directory:
//
//	npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved
//
// It fails with *servers.MissingError when npm is missing, and with npm's own words when a package
// cannot be fetched or is not what the lock says. It must not import anything of the product.
package npm
