// Package console has the developer console: one HTML document, and the scripts and styles that the binary embeds.
//
// The files are in the folder app. Their address has a hash of all of them, so a browser keeps them for good, and modules
// import each other by relative names. The document names the files of its own build.
//
// app/vendor has Preact, its hooks and htm, which `make generate` copies from npm. Files *.d.ts there, and tsconfig.json, are
// for the check of types in `make lint`, and are not embedded.
//
// It must not import anything of the project: server/httpapi serves it.
package console
