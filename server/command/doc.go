// Package command is the composition root: one file per command of the examprep binary, each a list of what it opens,
// wires and runs. It is the only package that imports everything, and nothing imports it but main.
//
// Settings come from flags; each flag has a variable (settings.go). A command fails with exit code 2 when it was called
// wrongly, with 1 when it could not do its work, and says in one line which flag, variable or file is at fault.
package command
