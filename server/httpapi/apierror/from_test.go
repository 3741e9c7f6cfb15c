package apierror_test

import (
	"context"
	"fmt"
	"testing"

	"examprep.dev/server/batch"
	"examprep.dev/server/httpapi/apierror"
)

func TestABatchThatCannotAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"too many wait": &batch.FullError{Queue: 1},
		"closed":        &batch.ClosedError{},
		"waiting":       &batch.AbandonedError{Cause: context.DeadlineExceeded},
		"running":       &batch.AbandonedError{Running: true, Cause: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, want := apierror.From(fmt.Errorf("open attempt: %w", err)), apierror.Unavailable(); got.Status != want.Status ||
				got.Code != want.Code || got.RetryAfter != want.RetryAfter || got.RetryAfter == 0 {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	for name, err := range map[string]error{"not answered": &batch.UnansweredError{}, "panic": &batch.PanicError{Value: "riddle"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := apierror.From(err); got.Status != apierror.Internal().Status {
				t.Errorf("got %+v", got)
			}
		})
	}
}
