// Package command is the composition root: one file per command of the examprep binary. Each file opens, connects and
// runs the command's parts. It is the only package that imports everything, and nothing imports it but main.
//
// Settings come from flags; each flag has a variable (settings.go). A command fails with exit code 2 when it was called
// wrongly, with 1 when it could not do its work, and says in one line which flag, variable or file is at fault.
//
// At its start a command warns of each variable that begins with EXAMPREP_ and belongs to no flag of any command
// (environment.go). The warning names the variable, and the flags' variables with a similar name. A variable of another
// command causes no warning, since the pods of several commands can share a ConfigMap. The same applies to an empty
// variable, to one that Kubernetes sets for a Service, and to EXAMPREP_TEST_…, which only tests read. A warning is a line
// of the log in api, worker and operator, and a line on standard error in other commands. It never stops the command.
package command
