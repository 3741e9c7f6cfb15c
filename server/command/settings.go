package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// variablePrefix begins the variables of all flags but those in usualNames.
const variablePrefix = "EXAMPREP_"

// usualNames are the variables whose names everybody knows without our prefix.
var usualNames = map[string]string{ //nolint:gochecknoglobals // a constant table
	"database-url": "DATABASE_URL",
	"redis-url":    "REDIS_URL",
	"kubeconfig":   "KUBECONFIG",
}

// variable names the environment variable of a flag: --listen is EXAMPREP_LISTEN.
func variable(flag string) string {
	if name, ok := usualNames[flag]; ok {
		return name
	}
	return prefixed(flag)
}

func prefixed(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fillFromEnvironment gives every flag that the command line leaves out the value of its variable, if that is set.
func fillFromEnvironment(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		value, set := os.LookupEnv(variable(flag.Name))
		if flag.Changed || !set || value == "" || failed != nil {
			return
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			failed = &usageError{fmt.Errorf("%s: %w", variable(flag.Name), err)}
		}
	})
	return failed
}

// describeVariables appends to each flag's usage the name of its variable.
func describeVariables(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" {
			flag.Usage += " [" + variable(flag.Name) + "]"
		}
	})
	for _, child := range cmd.Commands() {
		describeVariables(child)
	}
}

// usageError is a call that cannot be taken: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// require returns a usageError that names the flag and its variable when value is empty.
func require(flag, value string) error {
	if value == "" {
		return &usageError{fmt.Errorf("--%s (or %s) is required", flag, variable(flag))}
	}
	return nil
}
