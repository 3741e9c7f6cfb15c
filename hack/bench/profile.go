package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// profileRounds is how often the loads of the profile take turns. The API remembers what is opened in one turn.
const profileRounds = 8

// recordProfile writes a profile of the API under GETs, opens and submits to where -profile says, for the compiler to optimise
// by (make pgo). It is not among the parts that run unasked: it measures nothing.
func recordProfile(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	if err := s.prepareAPI(ctx); err != nil {
		return err
	}
	address, err := s.startPod(ctx, "api-profiled", "EXAMPREP_PPROF=true")
	if err != nil {
		return err
	}
	takers := newClients(s.keys[:connections], address)
	if err := takers.warm(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for range profileRounds {
			for _, load := range []load{s.overviewLoad(address), takers.open(), takers.submit()} {
				if _, _, err := load.drive(ctx, duration/(3*profileRounds)); err != nil {
					return err
				}
			}
			takers.forget()
		}
		return nil
	})
	group.Go(func() error {
		url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.metrics["api-profiled"], max(1, int(duration.Seconds())))
		profile, err := fetchWithin(ctx, duration+startTime, http.DefaultClient, http.MethodGet, url)
		if err != nil {
			return err
		}
		return os.WriteFile(s.profile, profile, 0o644)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	r.notef("%s is a profile of %s of the API under GETs, opens and submits.", s.profile, duration)
	return nil
}
