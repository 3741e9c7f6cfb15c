package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"examprep.dev/controllers"
	"examprep.dev/server/catalog"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/content"
	"examprep.dev/server/content/progress"
	"examprep.dev/server/postgres"
)

func newContent(program Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "content",
		Short: "Check and prepare ExamContent YAML, without a cluster",
	}
	cmd.AddCommand(newContentLint(), newContentDigest(), newContentDiff(), newContentImport(), newContentPublish())
	for _, long := range cmd.Commands() {
		cli.WithProgress(long, program.ProgressAfter)
	}
	cmd.AddCommand(newContentTemplate())
	return cmd
}

// report is what the content commands print.
type report interface{ WriteText(w io.Writer) error }

// printReport prints the result of a command after its last bar.
func printReport(cmd *cobra.Command, out *cli.Output, r report) error {
	progress.From(cmd.Context()).Done()
	return out.Print(cmd.OutOrStdout(), r, r.WriteText)
}

// problemsReport is what a content command prints that meets problems in files.
type problemsReport struct {
	Problems []content.Problem `json:"problems"`
}

// WriteText prints one problem a line.
func (r problemsReport) WriteText(w io.Writer) error {
	for _, problem := range r.Problems {
		if _, err := fmt.Fprintln(w, problem); err != nil {
			return err
		}
	}
	return nil
}

// explain prints every problem in files and returns how many there are; any other error as it is.
func explain(cmd *cobra.Command, out *cli.Output, err error) error {
	if reviewer, ok := errors.AsType[*content.ReviewerError](err); ok {
		return &cli.UsageError{Err: fmt.Errorf("--%w", reviewer)}
	}
	listed, ok := errors.AsType[*content.ProblemsError](err)
	if !ok {
		return err
	}
	return errors.Join(printReport(cmd, out, problemsReport{listed.Problems}), problemCount(listed))
}

func problemCount(listed *content.ProblemsError) error {
	if len(listed.Problems) == 1 {
		return errors.New("1 problem")
	}
	return fmt.Errorf("%d problems", len(listed.Problems))
}

// warnOfUnsigned warns before papers are published in production that an operator with trusted verifiers would refuse.
func warnOfUnsigned(stderr io.Writer, publisher *catalog.Publisher, verifiers catalog.Verifiers) {
	if verifiers == nil && publisher.Trust() == string(postgres.Production) {
		_, _ = fmt.Fprintln(stderr, "warning: this is a production database, and seals without a signature are accepted: "+
			"name the operator's file of verifiers in --trusted-verifiers to check signatures")
	}
}

func newContentLint() *cobra.Command {
	var out cli.Output
	var trusted string
	cmd := &cobra.Command{
		Use:   "lint PATH…",
		Short: "Check YAML offline; every problem with file, line and field",
		Args:  cli.AtLeastOnePath(),
		RunE: func(cmd *cobra.Command, paths []string) error {
			bundle, err := content.Load(cmd.Context(), cmd.InOrStdin(), paths...)
			if err != nil {
				return err
			}
			var options content.LintOptions
			if options.Verifiers, err = openVerifiers(trusted, commandLogger(cmd)); err != nil {
				return err
			}
			found, problems := content.Lint(cmd.Context(), bundle, options)
			var listed *content.ProblemsError
			if problems != nil && !errors.As(problems, &listed) {
				return problems
			}
			if err := printReport(cmd, &out, found); err != nil {
				return err
			}
			if listed != nil {
				return problemCount(listed)
			}
			return nil
		},
	}
	out.Register(cmd)
	trustedVerifiersFlag(cmd, &trusted)
	return cmd
}

func newContentDigest() *cobra.Command {
	var out cli.Output
	var options content.DigestOptions
	var signing signingFlags
	cmd := &cobra.Command{
		Use:   "digest [--write] PATH…",
		Short: "Print each paper's verification seal, or write it into the files; help to sign it",
		Args:  cli.AtLeastOnePath(),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := options.Check(); err != nil {
				return explain(cmd, &out, err)
			}
			bundle, err := content.Load(cmd.Context(), cmd.InOrStdin(), paths...)
			if err != nil {
				return err
			}
			if signing.message {
				return explain(cmd, &out, signing.printMessage(cmd, bundle))
			}
			if signing.signature != "" {
				signed, err := signing.write(cmd, bundle)
				if err != nil {
					return explain(cmd, &out, err)
				}
				return printReport(cmd, &out, signed)
			}
			options.Paper = signing.paper
			seals, err := content.Digest(cmd.Context(), bundle, options)
			if err != nil {
				return explain(cmd, &out, err)
			}
			return printReport(cmd, &out, seals)
		},
	}
	signing.register(cmd)
	out.Register(cmd)
	cmd.Flags().BoolVar(&options.Write, "write", false, "put the digests into the files, at verification.digest")
	cmd.Flags().StringVar(&options.By, "by", "", "name of the verifier; empty: the name in the file, unless its seal has another digest")
	cmd.Flags().StringVar(&options.At, "at", "", "date or RFC 3339 time of the verification; empty: the time in the file, unless its seal has another digest")
	cmd.MarkFlagsMutuallyExclusive("write", "message", "signature")
	return cmd
}

func newContentDiff() *cobra.Command {
	var out cli.Output
	var databaseURL string
	cmd := &cobra.Command{
		Use:   "diff PATH…",
		Short: "Show what publishing would change, question by question",
		Args:  cli.AtLeastOnePath(),
		RunE: func(cmd *cobra.Command, paths []string) error {
			bundle, err := content.Load(cmd.Context(), cmd.InOrStdin(), paths...)
			if err != nil {
				return err
			}
			return withPublisher(cmd.Context(), databaseURL, "", func(publisher *catalog.Publisher) error {
				diff, err := content.Diff(cmd.Context(), bundle, publisher)
				if err != nil {
					return explain(cmd, &out, err)
				}
				return printReport(cmd, &out, diff)
			})
		},
	}
	out.Register(cmd)
	cli.DatabaseFlag(cmd, &databaseURL)
	return cmd
}

func newContentPublish() *cobra.Command {
	var out cli.Output
	var databaseURL, environment, clusterName, trusted string
	cmd := &cobra.Command{
		Use:   "publish PATH…",
		Short: "Publish into a database as the operator would, without a cluster",
		Args:  cli.AtLeastOnePath(),
		RunE: func(cmd *cobra.Command, paths []string) error {
			bundle, err := content.Load(cmd.Context(), cmd.InOrStdin(), paths...)
			if err != nil {
				return err
			}
			verifiers, err := openVerifiers(trusted, commandLogger(cmd))
			if err != nil {
				return err
			}
			return withPublisher(cmd.Context(), databaseURL, environment, func(publisher *catalog.Publisher) error {
				warnOfUnsigned(cmd.ErrOrStderr(), publisher, verifiers)
				published, err := content.Publish(cmd.Context(), bundle, publisher.Trusting(verifiers), clusterName)
				if _, listed := errors.AsType[*content.ProblemsError](err); listed {
					return explain(cmd, &out, err) // nothing is published then
				}
				return errors.Join(printReport(cmd, &out, published), err)
			})
		},
	}
	out.Register(cmd)
	cli.DatabaseFlag(cmd, &databaseURL)
	cmd.Flags().StringVar(&environment, "environment", "", "refuse a database of another environment; empty: the database's own")
	clusterNameFlag(cmd, &clusterName)
	trustedVerifiersFlag(cmd, &trusted)
	return cmd
}

// withPublisher opens a publisher by the rules of the database's environment, which must be wanted unless that is empty.
func withPublisher(ctx context.Context, databaseURL, wanted string, use func(*catalog.Publisher) error) error {
	if err := cli.Require("database-url", databaseURL); err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, databaseURL, postgres.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	var environment postgres.Environment
	if wanted != "" {
		if environment, err = parseEnvironment(wanted); err != nil {
			return err
		}
	}
	installation, err := postgres.ReadInstallation(ctx, pool, environment)
	if err != nil {
		return err
	}
	return use(catalog.NewPublisher(pool, installation.Environment))
}

func clusterNameFlag(cmd *cobra.Command, target *string) {
	cmd.Flags().StringVar(target, "cluster-name", controllers.DefaultClusterName,
		"name of the cluster, unique among clusters that publish into one database; part of the owner of each exam key")
}
