package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"examprep.dev/server/command/cli"
	"examprep.dev/server/content"
	"examprep.dev/server/content/importer"
	"examprep.dev/server/content/jsonl"
	"examprep.dev/server/content/sheet"
	"examprep.dev/server/content/sheet/grid"
)

// importGOGC is the GOGC of an import. An import holds all questions in memory, so garbage must stay small.
const importGOGC = 40

// importFlags are the flags of content import.
type importFlags struct {
	options          importer.Options
	format, encoding string
}

func newContentImport() *cobra.Command {
	var out cli.Output
	var flags importFlags
	cmd := &cobra.Command{
		Use:   "import --format jsonl|csv|xlsx --from DIR|FILE --out DIR",
		Short: "Turn JSON Lines, CSV or a workbook into ExamContent YAML and ConfigMaps",
		Long: "jsonl: DIR holds exams.json, papers.jsonl and questions.jsonl.\n" +
			"csv: DIR holds exams.csv, papers.csv, questions.csv and optionally sections.csv, links.csv and steps.csv.\n" +
			"xlsx: FILE is a workbook with sheets of these names. `content template` writes one with an example row in each sheet.\n" +
			"Papers too large for one object are split over ConfigMaps, none of which is too large for kubectl apply.\n" +
			"If anything is wrong, every problem is printed and nothing is written.",
		Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			run, err := flags.check()
			if err != nil {
				return err
			}
			defer debug.SetGCPercent(debug.SetGCPercent(importGOGC))
			imported, err := run(cmd.Context())
			if listed, ok := errors.AsType[*content.ProblemsError](err); ok {
				return errors.Join(printReport(cmd, &out, imported), problemCount(listed))
			}
			if wrong, ok := errors.AsType[*sheet.InputError](err); ok {
				return &cli.UsageError{Err: fmt.Errorf("--from: %w", wrong)}
			}
			if errors.Is(err, context.Canceled) {
				return errors.New("interrupted: nothing was written")
			}
			if err != nil {
				return explain(cmd, &out, err)
			}
			return printReport(cmd, &out, imported)
		},
	}
	out.Register(cmd)
	flags.register(cmd)
	return cmd
}

func (f *importFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "jsonl", "format of the input: jsonl, csv or xlsx")
	flags.StringVar(&f.encoding, "encoding", "", "encoding of CSV files, an IANA name such as windows-1252; empty: UTF-8, or UTF-16 with a byte order mark")
	flags.StringVar(&f.options.From, "from", "", "folder to read, or the workbook")
	flags.StringVar(&f.options.Out, "out", "", "folder to write")
	flags.StringVar(&f.options.Namespace, "namespace", "", "namespace of all resources; empty: none")
	flags.BoolVar(&f.options.Seal, "seal", false, "write each paper's verification seal")
	flags.StringVar(&f.options.By, "by", "", "name of the verifier for --seal")
	flags.StringVar(&f.options.At, "at", "", "date or RFC 3339 time of the verification for --seal; empty: now")
}

// check returns the import that the flags ask for.
func (f *importFlags) check() (func(context.Context) (importer.Report, error), error) {
	formats := map[string]func(context.Context) (importer.Report, error){
		"jsonl": func(ctx context.Context) (importer.Report, error) { return jsonl.Import(ctx, f.options) },
		"csv":   func(ctx context.Context) (importer.Report, error) { return sheet.ImportCSV(ctx, f.options, f.encoding) },
		"xlsx":  func(ctx context.Context) (importer.Report, error) { return sheet.ImportXLSX(ctx, f.options) },
	}
	run := formats[f.format]
	if run == nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("--format: %q is not known; there are jsonl, csv and xlsx", f.format)}
	}
	if err := errors.Join(cli.Require("from", f.options.From), cli.Require("out", f.options.Out)); err != nil {
		return nil, err
	}
	if f.encoding != "" && f.format != "csv" {
		return nil, &cli.UsageError{Err: fmt.Errorf("--encoding: only csv has one; %s is always UTF-8", f.format)}
	}
	if err := grid.CheckEncoding(f.encoding); err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("--encoding: %w", err)}
	}
	return run, nil
}

// templateReport lists the files of a template.
type templateReport struct {
	Files []string `json:"files"`
}

// WriteText prints one file a line.
func (r templateReport) WriteText(w io.Writer) error {
	for _, file := range r.Files {
		if _, err := fmt.Fprintln(w, file); err != nil {
			return err
		}
	}
	return nil
}

func newContentTemplate() *cobra.Command {
	var out cli.Output
	var format, to string
	cmd := &cobra.Command{
		Use:   "template --format csv|xlsx --out DIR|FILE",
		Short: "Write a CSV or workbook template for content import, with an example row in each sheet",
		Args:  cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "csv" && format != "xlsx" {
				return &cli.UsageError{Err: fmt.Errorf("--format: %q is not known; there are csv and xlsx", format)}
			}
			if err := cli.Require("out", to); err != nil {
				return err
			}
			files := []string{to}
			write := func() error { return sheet.WriteTemplateXLSX(to) }
			if format == "csv" {
				write = func() (err error) {
					files, err = sheet.WriteTemplateCSV(to)
					return err
				}
			}
			if err := write(); err != nil {
				return err
			}
			return printReport(cmd, &out, templateReport{files})
		},
	}
	out.Register(cmd)
	cmd.Flags().StringVar(&format, "format", "xlsx", "format of the template: csv or xlsx")
	cmd.Flags().StringVar(&to, "out", "", "folder of the CSV files, or workbook; no file is replaced")
	return cmd
}
