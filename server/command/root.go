package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Execute runs one command line and returns the process's exit code: 0 done, 1 failed, 2 called wrongly. SIGTERM and
// SIGINT end it gracefully.
func Execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "examprep:", err)
	if _, ok := errors.AsType[*usageError](err); ok {
		return 2
	}
	return 1
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "examprep",
		Short: "A cluster-native exam platform: real past papers, timed mock exams, signed webhooks",
		Long: "Exams are declared as YAML in git, published to Postgres by the operator, served by API pods and told of by " +
			"signed webhooks.\nEvery flag has a variable, named behind it; a flag wins over its variable.",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			err := fillFromEnvironment(cmd)
			warnOfUnknownVariables(cmd, os.Environ())
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Errorf("unknown command %q", args[0])}
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(newAPI(), newWorker(), newOperator(), newMigrate(), newKeys(), newContent(), newCheck())
	describeVariables(root)
	return root
}

// exactly returns an argument check that names what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return &usageError{fmt.Errorf("%s takes %d arguments %v, got %d", cmd.CommandPath(), len(names), names, len(args))}
		}
		return nil
	}
}

// atLeastOne returns an argument check for commands that take a list.
func atLeastOnePath() cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return &usageError{fmt.Errorf("%s needs at least one PATH", cmd.CommandPath())}
		}
		return nil
	}
}
