package cli

import (
	"cmp"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"examprep.dev/server/content/progress"
)

// ProgressAfter is how long a command runs before it shows its progress.
const ProgressAfter = 2 * time.Second

// WithProgress lets a command show its progress on standard error once it has run for a time: 0 stands for ProgressAfter, a negative time
// for the start. It shows nothing if standard error is not a terminal.
func WithProgress(cmd *cobra.Command, after time.Duration) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !isTerminal(cmd.ErrOrStderr()) {
			return run(cmd, args)
		}
		shown := &bars{out: &gate{out: cmd.ErrOrStderr()}}
		if after < 0 {
			shown.show()
		} else {
			defer time.AfterFunc(cmp.Or(after, ProgressAfter), shown.show).Stop()
		}
		defer shown.Done()
		cmd.SetContext(progress.With(cmd.Context(), shown))
		return run(cmd, args)
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// gate drops what is written before it is open.
type gate struct {
	out  io.Writer
	open atomic.Bool
}

func (g *gate) Write(p []byte) (int, error) {
	if !g.open.Load() {
		return len(p), nil
	}
	return g.out.Write(p)
}

// bars is a progress.Reporter that shows one bar for each step.
type bars struct {
	out *gate

	mu  sync.Mutex
	bar *progressbar.ProgressBar
	// total and done count units of the step.
	total, done int64
}

// show makes this step and later ones visible.
func (b *bars) show() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out.open.Store(true)
	if b.bar != nil {
		_ = b.bar.RenderBlank() // a command does not fail because of its bar
	}
}

// Start implements progress.Reporter.
func (b *bars) Start(step string, total int64, unit progress.Unit) {
	b.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total, b.done = max(total, 1), 0
	b.bar = progressbar.NewOptions64(b.total,
		progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(step), progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(string(unit)),
		progressbar.OptionShowBytes(unit == progress.Bytes), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetRenderBlankState(true))
}

// Add implements progress.Reporter.
func (b *bars) Add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done += n; b.bar == nil {
		return
	}
	_ = b.bar.Set64(min(b.done, b.total-1)) // a bar that is full ends
}

// Done implements progress.Reporter.
func (b *bars) Done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar != nil {
		_ = b.bar.Exit()
		_ = b.bar.Clear()
	}
	b.bar = nil
}
