package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// UsageError is a call that cannot be taken: exit code 2.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Require returns a [*UsageError] that names the flag and its variable if value is empty.
func Require(flag, value string) error {
	if value == "" {
		return &UsageError{fmt.Errorf("--%s (or %s) is required", flag, Variable(flag))}
	}
	return nil
}

// Exactly returns an argument check that names what is missing.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return &UsageError{fmt.Errorf("%s takes %d arguments %v, got %d", cmd.CommandPath(), len(names), names, len(args))}
		}
		return nil
	}
}

// AtLeastOnePath returns an argument check for commands that take a list of paths.
func AtLeastOnePath() cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return &UsageError{fmt.Errorf("%s needs at least one PATH", cmd.CommandPath())}
		}
		return nil
	}
}

// DatabaseFlag adds the flag of PostgreSQL's address.
func DatabaseFlag(cmd *cobra.Command, target *string) {
	cmd.Flags().StringVar(target, "database-url", "", "PostgreSQL, postgres://user:password@host:port/database")
}
