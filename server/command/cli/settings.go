package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// VariablePrefix begins the variables of all flags but those in usualNames.
const VariablePrefix = "EXAMPREP_"

// usualNames are the variables that other programs read too, under these names.
var usualNames = map[string]string{ //nolint:gochecknoglobals // a constant table
	"database-url": "DATABASE_URL",
	"redis-url":    "REDIS_URL",
	"kubeconfig":   "KUBECONFIG",
}

// Variable returns the environment variable of a flag: --listen is EXAMPREP_LISTEN, --database-url is DATABASE_URL.
func Variable(flag string) string {
	if name, ok := usualNames[flag]; ok {
		return name
	}
	return Prefixed(flag)
}

// Prefixed returns the variable of a flag in the form that most have: EXAMPREP_ and the flag's name.
func Prefixed(flag string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FillFromEnvironment gives every flag that the command line leaves out the value of its variable, if that is set. It returns a
// [*UsageError] for a value that the flag refuses.
func FillFromEnvironment(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		value, set := os.LookupEnv(Variable(flag.Name))
		if flag.Changed || !set || value == "" || failed != nil {
			return
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			failed = &UsageError{fmt.Errorf("%s: %w", Variable(flag.Name), err)}
		}
	})
	return failed
}

// DescribeVariables appends to each flag's usage the name of its variable, also to the flags of the command's children.
func DescribeVariables(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" {
			flag.Usage += " [" + Variable(flag.Name) + "]"
		}
	})
	for _, child := range cmd.Commands() {
		DescribeVariables(child)
	}
}
