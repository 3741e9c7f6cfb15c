// Package content reads exams from files and checks, seals, compares and publishes them, for the commands `examprep content …`.
//
// Load reads files; Lint, Digest, Sign, Diff and Publish use the result. Load fails only if a file cannot be read. Each problem in a file is a
// Problem with file, line, column and field; with one, all functions but Lint return a *ProblemsError.
//
// Package assemble converts resources to exams, for the operator too. So the operator publishes a file that lint accepts.
//
// The package imports neither controller-runtime nor a Kubernetes client, and does not talk to a cluster.
package content
