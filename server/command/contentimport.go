package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"examprep.dev/server/command/cli"
	"examprep.dev/server/content"
	"examprep.dev/server/content/jsonl"
)

func newContentImport() *cobra.Command {
	var out cli.Output
	var options jsonl.ImportOptions
	var format, at string
	cmd := &cobra.Command{
		Use:   "import --format jsonl --from DIR --out DIR",
		Short: "Turn neutral JSON Lines into ExamContent YAML and ConfigMaps",
		Long: "DIR holds exams.json, papers.jsonl and questions.jsonl. Papers too large for one object are split over\n" +
			"ConfigMaps, none of which is too large for kubectl apply.",
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "jsonl" {
				return &cli.UsageError{Err: fmt.Errorf("--format: %q is not known; there is jsonl", format)}
			}
			if err := cli.Require("from", options.From); err != nil {
				return err
			}
			if err := cli.Require("out", options.Out); err != nil {
				return err
			}
			if at != "" {
				var err error
				if options.At, err = time.Parse(time.RFC3339, at); err != nil {
					return &cli.UsageError{Err: fmt.Errorf("--at: %w", err)}
				}
			}
			imported, err := jsonl.Import(cmd.Context(), options)
			if listed, ok := errors.AsType[*content.ProblemsError](err); ok {
				return errors.Join(printReport(&out, cmd.OutOrStdout(), imported), problemCount(listed))
			}
			if err != nil {
				return explain(cmd, &out, err)
			}
			return printReport(&out, cmd.OutOrStdout(), imported)
		},
	}
	out.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&format, "format", "jsonl", "what the input is")
	flags.StringVar(&options.From, "from", "", "folder to read")
	flags.StringVar(&options.Out, "out", "", "folder to write")
	flags.StringVar(&options.Namespace, "namespace", "", "namespace of what is written; empty: none")
	flags.BoolVar(&options.Seal, "seal", false, "write each paper's verification seal")
	flags.StringVar(&options.By, "by", "", "who verified, for --seal")
	flags.StringVar(&at, "at", "", "when, for --seal: an RFC 3339 time; empty: now")
	return cmd
}
