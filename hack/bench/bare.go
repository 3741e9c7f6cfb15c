package main

import (
	"context"
	"fmt"

	"examprep.dev/hack/bench/baseline"
)

// serveBare is the baseline of the gate's measurement. Its arguments are an address and two files: what it sends for a GET and
// for a POST.
func serveBare(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s needs an address and two files", roleBare)
	}
	return baseline.Serve(ctx, args[0], args[1], args[2])
}
