// Command examprep is the whole platform in one binary: the API, the worker, the operator, migrations, and an
// administrator's way to keys and content. `examprep help` lists the commands.
package main

import (
	"os"

	"examprep.dev/server/command"
)

func main() {
	os.Exit(command.Program{}.Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
