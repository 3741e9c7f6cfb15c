package main

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

const (
	// consolePersons is how many persons take turns. A person may make 120 requests at once, and two a second after that.
	consolePersons = 20
	// personRounds is how often a person asks for each view.
	personRounds = 7
	// firstRows is the bar of a page's first rows.
	firstRows = 300 * time.Millisecond
)

// view is the request that the first view of a page of the console makes, and how long it took.
type view struct {
	page, path string
	took       sample
}

// consoleViews are all of them. hook is the path of the endpoint that has the deliveries.
func consoleViews(hook string, now time.Time) []*view {
	dayAgo := url.QueryEscape(now.Add(-24 * time.Hour).UTC().Format(time.RFC3339))
	return []*view{
		{page: "every page", path: "/session"},
		{page: "overview", path: "/overview"},
		{page: "keys", path: "/keys"},
		{page: "usage", path: "/usage"},
		{page: "webhooks", path: "/webhooks"},
		{page: "deliveries", path: hook + "/deliveries"},
		{page: "deliveries, pending", path: hook + "/deliveries?state=pending"},
		{page: "deliveries, failed", path: hook + "/deliveries?state=failed"},
		{page: "deliveries, cancelled", path: hook + "/deliveries?state=cancelled"},
		{page: "deliveries, delivered", path: hook + "/deliveries?state=delivered"},
		{page: "deliveries, one event", path: hook + "/deliveries?event=mock_attempt.scored"},
		{page: "deliveries, since a day ago", path: hook + "/deliveries?since=" + dayAgo},
		{page: "activity", path: "/audit"},
		{page: "activity, one action", path: "/audit?action=key.revoke"},
		{page: "members", path: "/members"},
	}
}

// measureConsole measures the API's part of the first view of each page, with an account that has much to show.
func measureConsole(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	c, err := s.openConsole(ctx)
	if err != nil {
		return err
	}
	defer c.close(context.WithoutCancel(ctx))
	views := consoleViews(c.hook, time.Now())
	if err := c.ask(ctx, views, 4*duration); err != nil {
		return err
	}
	slowest := views[0]
	for _, v := range views {
		r.row("console: "+v.page, &v.took)
		if v.took.percentile(0.99) > slowest.took.percentile(0.99) {
			slowest = v
		}
	}
	r.judge(verdict{
		what: fmt.Sprintf("console: request of a first view, p99 (%s)", slowest.page), unit: " ms", bar: float64(firstRows.Milliseconds()),
		measured: percentileOf(0.99)(&slowest.took),
	})
	return nil
}

// ask asks for every view in turn, over one connection, until the time is over or the persons have no request left. The
// first round warms the pod up and does not count.
func (c *consoleData) ask(ctx context.Context, views []*view, duration time.Duration) error {
	asker, err := dialAsker(ctx, c.address)
	if err != nil {
		return err
	}
	defer asker.conn.Close()
	for began, round := time.Now(), 0; time.Since(began) < duration && round < consolePersons*personRounds; round++ {
		cookie := c.cookies[round%len(c.cookies)]
		for _, v := range views {
			request := []byte("GET /v1/developer" + v.path + " HTTP/1.1\r\nHost: " + c.address + "\r\nCookie: " + cookie + "\r\n\r\n")
			_, took, err := asker.ask(ctx, request)
			if err != nil {
				return fmt.Errorf("GET %s: %w", v.path, err)
			}
			if round > 0 {
				v.took.count(took)
			}
		}
	}
	return nil
}
