package command

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"examprep.dev/server/catalog"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/content"
	"examprep.dev/server/seals"
)

func trustedVerifiersFlag(cmd *cobra.Command, target *string) {
	cmd.Flags().StringVar(target, "trusted-verifiers", "",
		"file of allowed_signers lines and PEM public keys, one of which must have signed each seal; without it seals need no signature")
}

// openVerifiers reads the file of trusted verifiers; nil without one.
func openVerifiers(path string, logger *slog.Logger) (catalog.Verifiers, error) {
	if path == "" {
		return nil, nil
	}
	file, err := seals.Open(path, logger)
	if err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("--trusted-verifiers: %w", err)}
	}
	return file, nil
}

// commandLogger is for commands that print their result and have little to log.
func commandLogger(cmd *cobra.Command) *slog.Logger {
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// signingFlags are the two halves of signing with a tool that examprep is not: what to sign, and what came out.
type signingFlags struct {
	message          bool
	signature, paper string
}

func (f *signingFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.message, "message", false, "print exactly what the verifier of one paper signs")
	flags.StringVar(&f.signature, "signature", "", "put the signature in this file (-: standard input) into one paper's verification")
	flags.StringVar(&f.paper, "paper", "", "only the paper of this ID; required with --message and --signature if the files hold several")
}

func (f *signingFlags) printMessage(cmd *cobra.Command, bundle *content.Files) error {
	message, err := content.Message(cmd.Context(), bundle, f.paper)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(message)
	return err
}

func (f *signingFlags) write(cmd *cobra.Command, bundle *content.Files) (content.DigestReport, error) {
	from := cmd.InOrStdin()
	if f.signature != "-" {
		file, err := os.Open(f.signature)
		if err != nil {
			return content.DigestReport{}, fmt.Errorf("--signature: %w", err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, seals.MaxSignature+1))
	if err != nil {
		return content.DigestReport{}, fmt.Errorf("--signature: %w", err)
	}
	return content.Sign(cmd.Context(), bundle, f.paper, string(text))
}
