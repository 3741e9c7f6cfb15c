package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"examprep.dev/controllers"
	"examprep.dev/controllers/manifest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/postgres"
)

func newContent() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "content",
		Short: "Check and prepare ExamContent YAML, without a cluster",
	}
	cmd.AddCommand(newContentLint(), newContentDigest(), newContentDiff(), newContentImport(), newContentPublish())
	return cmd
}

// report is what the content commands print.
type report interface{ WriteText(w io.Writer) error }

func printReport(out *cli.Output, w io.Writer, r report) error { return out.Print(w, r, r.WriteText) }

func newContentLint() *cobra.Command {
	var out cli.Output
	var trusted string
	cmd := &cobra.Command{
		Use:   "lint PATH…",
		Short: "Check YAML offline; every problem with file, line and field",
		Args:  cli.AtLeastOnePath(),
		RunE: func(cmd *cobra.Command, paths []string) error {
			bundle, err := manifest.Load(cmd.Context(), cmd.InOrStdin(), paths...)
			if err != nil {
				return err
			}
			var options manifest.LintOptions
			if options.Verifiers, err = openVerifiers(trusted, commandLogger(cmd)); err != nil {
				return err
			}
			found, problems := manifest.Lint(cmd.Context(), bundle, options)
			var listed *manifest.ProblemsError
			if problems != nil && !errors.As(problems, &listed) {
				return problems
			}
			if err := printReport(&out, cmd.OutOrStdout(), found); err != nil {
				return err
			}
			if listed != nil {
				return fmt.Errorf("%d problems", len(listed.Problems))
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
	var options manifest.DigestOptions
	var signing signingFlags
	cmd := &cobra.Command{
		Use:   "digest [--write] PATH…",
		Short: "Print each paper's verification seal, or write it into the files; help to sign it",
		Args:  cli.AtLeastOnePath(),
		RunE: func(cmd *cobra.Command, paths []string) error {
			bundle, err := manifest.Load(cmd.Context(), cmd.InOrStdin(), paths...)
			if err != nil {
				return err
			}
			if signing.message {
				return signing.printMessage(cmd, bundle)
			}
			if signing.signature != "" {
				signed, err := signing.write(cmd, bundle)
				if err != nil {
					return err
				}
				return printReport(&out, cmd.OutOrStdout(), signed)
			}
			seals, err := manifest.Digest(cmd.Context(), bundle, options)
			if err != nil {
				return err
			}
			return printReport(&out, cmd.OutOrStdout(), seals)
		},
	}
	signing.register(cmd)
	out.Register(cmd)
	cmd.Flags().BoolVar(&options.Write, "write", false, "put the digests into the files, at verification.digest")
	cmd.Flags().StringVar(&options.By, "by", "", "who verified; empty: what the file says")
	cmd.Flags().StringVar(&options.At, "at", "", "when, a date or RFC 3339 time; empty: what the file says")
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
			bundle, err := manifest.Load(cmd.Context(), cmd.InOrStdin(), paths...)
			if err != nil {
				return err
			}
			return withPublisher(cmd.Context(), databaseURL, "", func(publisher *catalog.Publisher) error {
				diff, err := manifest.Diff(cmd.Context(), bundle, publisher)
				if err != nil {
					return err
				}
				return printReport(&out, cmd.OutOrStdout(), diff)
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
			bundle, err := manifest.Load(cmd.Context(), cmd.InOrStdin(), paths...)
			if err != nil {
				return err
			}
			verifiers, err := openVerifiers(trusted, commandLogger(cmd))
			if err != nil {
				return err
			}
			return withPublisher(cmd.Context(), databaseURL, environment, func(publisher *catalog.Publisher) error {
				publisher = publisher.Trusting(verifiers)
				published, err := manifest.Publish(cmd.Context(), bundle, publisher, clusterName)
				return errors.Join(printReport(&out, cmd.OutOrStdout(), published), err)
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

// withPublisher opens a publisher by the rules of the database's environment; a wanted one must be it.
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
		"tells clusters apart that publish into one database; part of every claim")
}
