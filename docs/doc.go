// Package docs has no code. Its tests check that the repository's comments cite existing parts of spec.md, and that links
// between Markdown pages resolve.
package docs
