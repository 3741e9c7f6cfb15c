package cli

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// Output is how a command prints its result: for people, or as JSON for scripts. It is the value of a flag, so a command with
// another format does nothing.
type Output struct{ JSON bool }

// Register adds the flag --output.
func (o *Output) Register(cmd *cobra.Command) { cmd.Flags().VarP(o, "output", "o", "text or json") }

func (o *Output) String() string {
	if o.JSON {
		return "json"
	}
	return "text"
}

// Set reads the flag: text or json.
func (o *Output) Set(format string) error {
	if format != "text" && format != "json" {
		return errors.New("it is neither text nor json")
	}
	o.JSON = format == "json"
	return nil
}

// Type names the kind of the flag in help texts.
func (*Output) Type() string { return "string" }

// Print writes v as JSON, or lets text print it.
func (o *Output) Print(w io.Writer, v any, text func(io.Writer) error) error {
	if !o.JSON {
		return text(w)
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
