// Package progress reports how far a long operation is. A context carries the reporter, so that functions without one need no parameter.
package progress

import "context"

// Unit is what a step counts.
type Unit string

// The units.
const (
	Bytes     Unit = "B"
	Files     Unit = "files"
	Papers    Unit = "papers"
	Questions Unit = "questions"
)

// Reporter shows progress. One goroutine calls its methods.
type Reporter interface {
	// Start begins a step and ends the one before it. A step can have more units than its total.
	Start(step string, total int64, unit Unit)
	// Add reports that n more units of the step are done.
	Add(n int64)
	// Done ends the last step, so that other output can follow.
	Done()
}

type key struct{}

// With returns a context that carries a reporter.
func With(ctx context.Context, r Reporter) context.Context { return context.WithValue(ctx, key{}, r) }

// From returns the reporter of a context, or one that does nothing.
func From(ctx context.Context) Reporter {
	if r, ok := ctx.Value(key{}).(Reporter); ok {
		return r
	}
	return silent{}
}

type silent struct{}

// Start does nothing.
func (silent) Start(string, int64, Unit) {}

// Add does nothing.
func (silent) Add(int64) {}

// Done does nothing.
func (silent) Done() {}
