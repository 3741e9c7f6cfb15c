package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger returns a logger of one JSON object a line. level is debug, info, warn or error, in any case.
func NewLogger(w io.Writer, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q is none of debug, info, warn, error", level)
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least})), nil
}
