// Package npm installs the programs that tests and lint take from npm, pinned by package-lock.json to their digests: a
// certified OpenID Connect provider, a linter for OpenAPI documents, and Node itself, so that neither depends on the
// machine's own version (Debian's may be older than either accepts).
//
// They are installed once per package-lock.json into the user's cache, into a directory beside the final one, which it
// becomes by one rename, under a lock: of two runs at once one installs and the other waits, and a run that is killed
// leaves nothing that looks finished. No script of any package is run. `make deps` installs npm itself.
//
// To change a version, edit package.json and run, in this directory:
//
//	npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved
//
// It fails with *servers.MissingError when npm is missing, and with npm's own words when a package
// cannot be fetched or is not what the lock says. It must not import anything of the product.
package npm
