package command

import (
	"fmt"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"examprep.dev/server/command/cli"
	"examprep.dev/server/testkit/golden"
)

func TestGoldenFlags(t *testing.T) {
	golden.Compare(t, "flags", commandLines(newRoot(patient()), ""))
}

func commandLines(cmd *cobra.Command, parents string) []string {
	lines := []string{parents + cmd.Use}
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		name := "--" + flag.Name
		if flag.Shorthand != "" {
			name += ",-" + flag.Shorthand
		}
		lines = append(lines, fmt.Sprintf("%s%s %s %s %s %q",
			parents, cmd.Name(), name, cli.Variable(flag.Name), flag.Value.Type(), flag.DefValue))
	})
	for _, child := range cmd.Commands() {
		lines = append(lines, commandLines(child, parents+cmd.Name()+" ")...)
	}
	return lines
}
