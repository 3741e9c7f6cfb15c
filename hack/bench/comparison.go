package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// comparison is one kind of request to two pods, one with little data and one with much, and how long the responses took.
type comparison struct {
	name string
	// request returns the next request to the pod of a dataset, with a check of the response; nil after the last one.
	request func(d *dataset) (request []byte, check func(body []byte) error)
	// size describes how much the request has to do with.
	size         func(d *dataset) string
	small, large sample
}

// report adds a row for each pod, and compares them.
func (c *comparison) report(r *report, small, large *dataset) {
	r.row(c.name+": "+c.size(large), &c.large)
	r.row("  the same: "+c.size(small), &c.small)
	for _, share := range []float64{0.5, 0.99} {
		r.judge(verdict{
			what: fmt.Sprintf("%s: p%.0f among many / among few", c.name, share*100), unit: "×", bar: 2,
			measured: c.large.percentile(share).Seconds() / c.small.percentile(share).Seconds(),
		})
	}
}

// askInTurn sends every kind of request to both pods, in turn, over one connection each. The first round warms both up and
// does not count. There are two rounds at least.
func askInTurn(ctx context.Context, small, large *dataset, asked []*comparison, duration time.Duration) error {
	few, err := dialAsker(ctx, small.address)
	if err != nil {
		return err
	}
	defer few.conn.Close()
	many, err := dialAsker(ctx, large.address)
	if err != nil {
		return err
	}
	defer many.conn.Close()
	for began, round := time.Now(), 0; round < 2 || time.Since(began) < duration; round++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, c := range asked {
			if err := errors.Join(c.ask(ctx, few, small, &c.small, round > 0), c.ask(ctx, many, large, &c.large, round > 0)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask sends the next request to the pod of d, and adds its time to into if counts is true.
func (c *comparison) ask(ctx context.Context, asker *asker, d *dataset, into *sample, counts bool) error {
	request, check := c.request(d)
	if request == nil {
		return nil
	}
	body, took, err := asker.ask(ctx, request)
	if err == nil {
		err = check(body)
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", c.name, d.name, err)
	}
	if counts {
		into.count(took)
	}
	return nil
}

// asker is one connection that sends one request after another.
type asker struct {
	conn     net.Conn
	received []byte
}

func dialAsker(ctx context.Context, address string) (*asker, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &asker{conn: conn, received: make([]byte, 64<<10)}, nil
}

// ask returns the body of the response, which must be 200, and how long the response took. The next call uses the body's
// memory again.
func (a *asker) ask(ctx context.Context, request []byte) (body []byte, took time.Duration, err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(answerTime)
	}
	if err := a.conn.SetDeadline(deadline); err != nil {
		return nil, 0, err
	}
	began := time.Now()
	if _, err := a.conn.Write(request); err != nil {
		return nil, 0, err
	}
	status, body, err := a.read()
	took = time.Since(began)
	if err == nil && status != http.StatusOK {
		err = &statusError{status, string(body)}
	}
	return body, took, err
}

// read takes one answer off the connection; the next call uses its body's memory again.
func (a *asker) read() (status int, body []byte, err error) {
	for length := 0; ; {
		if length == len(a.received) {
			a.received = append(a.received, make([]byte, length)...)
		}
		n, err := a.conn.Read(a.received[length:])
		if err != nil {
			return 0, nil, err
		}
		length += n
		if status, body, whole, err := parseAnswer(a.received[:length]); whole || err != nil {
			return status, body, err
		}
	}
}
