// Package manifest turns files into resources and resources into the domain.
//
// It has two users. The operator's reconciler calls Assemble with a ChunkReader that reads ConfigMaps live; the
// `examprep content …` commands call Load, and then Lint, Digest, Diff, Publish on what it read, or Import. Both go
// through the same conversion, so that what the command line accepts is what the operator publishes.
//
// # Ways to fail
//
// Assemble answers with typed errors: *ChunkMissingError (wait for it), *RefError (a reference that cannot be used:
// what it names is wrong), *catalog.ValidationError (the content is wrong; its fields are paths into the resource, as
// `spec.papers[2].questions[14].answer`). Several at once come as Errors; errors.As finds each. Load fails only when a
// file cannot be read; what is wrong inside a file is a Problem with file, line, column and field.
//
// # Limits
//
// A chunk may hold MaxChunkBytes after decompression, the chunks of one exam MaxExamBytes together: a few kilobytes of
// gzip in a ConfigMap cannot fill the operator's memory.
//
// # YAML as kubectl reads it
//
// Values are those that kubectl sees (sigs.k8s.io/yaml, YAML 1.1: `NO` is false), positions come from the syntax tree.
//
// This package imports neither controller-runtime nor a Kubernetes client, and never talks to a cluster.
package manifest
