package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"examprep.dev/server/command/administration"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/telemetry"
)

// Program runs command lines. Its fields are time limits of processes; a zero field means production's. Tests set longer ones,
// because a busy machine must not look like a store that is down.
type Program struct {
	// Timings are the times of the leases of API pods on keys ([directory.Production]).
	Timings directory.Timings
	// RequestTimeout bounds each step of a request to the API: reading it (15 s), handling it (10 s), writing the response (30 s),
	// and the wait for the next one (75 s).
	RequestTimeout time.Duration
	// StoreTimeout limits each call to a store: a batch of attempts (10 s), a read of the catalogue (5 s), a call of the rate
	// limiter (250 ms) and a statement of the deliveries (5 s). It also limits a write of usage: 10 s, or 2 s at shutdown.
	StoreTimeout time.Duration
	// ReceiverTimeout bounds the wait for a webhook's receiver (10 s), and how much longer a delivery is leased (10 s).
	ReceiverTimeout time.Duration
	// LeaderTimeout is how long an operator that leads tries to renew its lease before it ends (10 s). Another one waits half as long
	// again.
	LeaderTimeout time.Duration
	// TraceTimeout bounds the last export of traces (3 s).
	TraceTimeout time.Duration
	// ProgressAfter is how long a content command runs before it shows its progress on a terminal (2 s); a negative time shows it from the start.
	ProgressAfter time.Duration
	// Checks are the time limits of health checks and of their server.
	Checks telemetry.Checks
}

// Execute runs one command line and returns the process's exit code: 0 done, 1 failed, 2 called wrongly. SIGTERM and
// SIGINT end it gracefully.
func (p Program) Execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	root := newRoot(p)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "examprep:", err)
	if _, ok := errors.AsType[*cli.UsageError](err); ok {
		return 2
	}
	return 1
}

func newRoot(program Program) *cobra.Command {
	root := &cobra.Command{
		Use:   "examprep",
		Short: "A cluster-native exam platform: real past papers, timed mock exams, signed webhooks",
		Long: "Exams are YAML in git. The operator publishes them to PostgreSQL, API pods serve them, and workers send signed " +
			"webhooks.\nEvery flag has a variable, which its help text names; a flag has precedence over its variable.",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			err := cli.FillFromEnvironment(cmd)
			warnOfUnknownVariables(cmd, os.Environ())
			if err != nil {
				return err
			}
			if err := cmd.ValidateFlagGroups(); err != nil { // cobra's own check does not make it a usage error
				return &cli.UsageError{Err: err}
			}
			return checkTimes(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &cli.UsageError{Err: fmt.Errorf("unknown command %q", args[0])}
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &cli.UsageError{Err: err} })
	root.AddCommand(newAPI(program), newWorker(program), newOperator(program), newMigrate(), administration.NewKeys(program.Timings), administration.NewAccounts(), newContent(program), newCheck())
	cli.DescribeVariables(root)
	return root
}
