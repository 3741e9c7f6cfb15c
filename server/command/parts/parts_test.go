package parts

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheFrontStopsBeforeTheBackItLeansOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var order []string
		stops := func(name string, takes time.Duration) Part {
			return Part{name, func(ctx context.Context) error {
				<-ctx.Done()
				<-time.After(takes)
				order = append(order, name)
				return nil
			}}
		}
		time.AfterFunc(time.Minute, stop)
		err := Run(ctx, slog.New(slog.DiscardHandler), 10*time.Second,
			[]Part{stops("server", 5*time.Second)}, []Part{stops("cache", time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"server", "cache"}; !slices.Equal(order, want) {
			t.Errorf("stopped in order %v, want %v", order, want)
		}
	})
}

func TestAPartThatFailsStopsTheRestAndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("disk on fire")
		waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		err := Run(t.Context(), slog.New(slog.DiscardHandler), time.Second,
			[]Part{{"server", waits}},
			[]Part{{"relay", func(context.Context) error { return broken }}, {"cache", waits}})
		if !errors.Is(err, broken) {
			t.Fatalf("got %v, want it to wrap %v", err, broken)
		}
		if err.Error() != "relay: disk on fire" {
			t.Errorf("got %q: the part is not named", err)
		}
	})
}

func TestAPartThatOutstaysTheGraceIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		release := make(chan struct{})
		defer close(release)
		time.AfterFunc(time.Second, stop)
		err := Run(ctx, slog.New(slog.DiscardHandler), time.Second,
			[]Part{{"stuck", func(context.Context) error { <-release; return nil }}}, nil)
		var late *GraceError
		if !errors.As(err, &late) || !slices.Equal(late.parts, []string{"stuck"}) {
			t.Errorf("got %v, want a GraceError with the stuck part", err)
		}
	})
}
