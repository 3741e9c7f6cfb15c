// Package assemble turns an ExamContent and the chunks of its ConfigMaps into an exam of the catalogue.
//
// The operator and the commands `examprep content …` use it, so a file that lint accepts is one that the operator publishes.
//
// Errors are typed: *ChunkMissingError (wait for the ConfigMap), *RefError (the reference or the ConfigMap must change), and
// *catalog.ValidationError with fields as paths into the resource, like `spec.papers[2].questions[14].answer`. Several are returned as Errors;
// errors.As finds each.
//
// MaxChunkBytes and MaxExamBytes limit what gzip and YAML aliases expand to, and a chunk has a limited number of values and questions. So a
// small ConfigMap cannot fill the operator's memory. One chunk at a time has a syntax tree, which needs more memory than its text.
//
// The package imports neither controller-runtime nor a Kubernetes client.
package assemble
