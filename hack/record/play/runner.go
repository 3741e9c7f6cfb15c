package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/record/normalise"
	"examprep.dev/hack/record/recording"
	"examprep.dev/hack/record/script"
	"examprep.dev/hack/record/stage"
	"examprep.dev/hack/record/wire"
)

// Runner plays exchanges. It is the script's Actor.
type Runner struct {
	stage   *stage.Stage
	started time.Time
	report  func(format string, args ...any)

	mu        sync.Mutex
	variables map[string]string
	stock     []string // keys that were never used
	sources   uint32   // client addresses given out
	held      sync.WaitGroup
	release   chan struct{}
	pace      *time.Ticker // between exchanges of fast groups
}

// pace is between two exchanges. A server lets at most 50 refused connections a second end without a reset
// (docs/decisions/0005-memory-by-limit.md).
const pace = time.Second / 40

// played is an exchange and its outcome.
type played struct {
	exchange script.Exchange
	outcome  wire.Outcome
}

// Run plays the groups and returns the recording.
func Run(ctx context.Context, on *stage.Stage, groups []script.Group, report func(format string, args ...any)) ([]recording.Exchange, error) {
	r := &Runner{
		stage: on, started: time.Now(), report: report, variables: make(map[string]string), release: make(chan struct{}),
		pace: time.NewTicker(pace),
	}
	defer r.pace.Stop()
	defer r.held.Wait()
	defer close(r.release)
	for name, key := range on.Keys {
		r.set(name, key)
	}
	r.set("since", r.started.Add(-time.Hour).UTC().Format(time.RFC3339))
	if err := r.fillStock(ctx, groups); err != nil {
		return nil, err
	}
	results := make([][]played, len(groups))
	slow, slowCtx := errgroup.WithContext(ctx)
	for i, group := range groups {
		if group.Slow {
			slow.Go(func() (err error) {
				results[i], err = r.playGroup(slowCtx, group)
				return err
			})
		}
	}
	for i, group := range groups {
		if group.Slow {
			continue
		}
		err := r.renewSessions(ctx)
		if err == nil {
			results[i], err = r.playGroup(ctx, group)
		}
		if err != nil {
			return nil, errors.Join(err, slow.Wait())
		}
	}
	report("waiting for exchanges that wait for time limits")
	if err := slow.Wait(); err != nil {
		return nil, err
	}
	return r.normalise(results), nil
}

// renewSessions signs people in again who are signed in: a session may send 120 requests at once.
func (r *Runner) renewSessions(ctx context.Context) error {
	for _, person := range []string{"ada", "bob"} {
		if r.known(person) {
			if err := r.SignIn(ctx, person); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Runner) playGroup(ctx context.Context, group script.Group) ([]played, error) {
	list := make([]played, 0, len(group.Exchanges))
	for _, exchange := range group.Exchanges {
		if exchange.Before != nil {
			if err := exchange.Before(ctx, r); err != nil {
				return nil, fmt.Errorf("prepare %s: %w", exchange.Name, err)
			}
		}
		if !group.Slow {
			<-r.pace.C
		}
		outcome, err := r.play(ctx, exchange)
		if err != nil {
			return nil, fmt.Errorf("play %s: %w", exchange.Name, err)
		}
		r.keep(exchange, outcome.Responses)
		list = append(list, played{exchange, outcome})
	}
	r.report("played %s: %d exchanges", group.Name, len(list))
	return list, nil
}

func (r *Runner) play(ctx context.Context, exchange script.Exchange) (wire.Outcome, error) {
	source, err := r.source(exchange.Source)
	if err != nil {
		return wire.Outcome{}, err
	}
	conversation := wire.Conversation{
		Source: source, Segments: r.segments(exchange.Send), Responses: max(exchange.Responses, 1), Head: exchange.Head,
		HalfClose: exchange.HalfClose, Leave: exchange.Leave, Unprobed: exchange.Unprobed, Limit: exchange.Limit,
	}
	if exchange.Responses == script.None {
		conversation.Responses = 0
	}
	outcome, err := wire.Play(ctx, r.stage.Address, conversation)
	if exchange.First != 0 {
		outcome.Responses = first(outcome.Responses, exchange.First)
	}
	return outcome, err
}

func first(responses []wire.Response, code int) []wire.Response {
	for _, response := range responses {
		if response.Code() == code {
			return []wire.Response{response}
		}
	}
	return nil
}

// source returns the wanted client address, or a new one.
func (r *Runner) source(wanted string) (netip.Addr, error) {
	if wanted != "" {
		return netip.ParseAddr(wanted)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources++
	const last = 250
	if r.sources >= 100*last*last {
		return netip.Addr{}, errors.New("no client address is left")
	}
	n := r.sources
	return netip.AddrFrom4([4]byte{127, byte(1 + n/last/last), byte(1 + n/last%last), byte(1 + n%last)}), nil
}

func (r *Runner) known(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.variables[name]
	return known
}

func (r *Runner) set(name, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.variables[name] = value
}

// keep sets the variables that an exchange names, from its last response. A variable stays unset if the response has no such part.
func (r *Runner) keep(exchange script.Exchange, responses []wire.Response) {
	if len(responses) == 0 {
		return
	}
	response := responses[len(responses)-1]
	for variable, path := range exchange.Keep {
		kind, name, _ := strings.Cut(path, ".")
		var value string
		switch kind {
		case "header":
			value = response.Get(name)
		case "cookie":
			value = cookie(response, name)
		default:
			value = member(response.Body, name)
		}
		if value == "" {
			r.report("%s: no %s in the response", exchange.Name, path)
			continue
		}
		r.set(variable, value)
	}
}

func cookie(response wire.Response, name string) string {
	for _, header := range response.Headers {
		value, found := strings.CutPrefix(header.Value, name+"=")
		if found && strings.EqualFold(header.Name, "Set-Cookie") {
			value, _, _ = strings.Cut(value, ";")
			return value
		}
	}
	return ""
}

// member returns a string of a JSON document by its path.
func member(document []byte, path string) string {
	var value any
	if json.Unmarshal(document, &value) != nil {
		return ""
	}
	for name := range strings.SplitSeq(path, ".") {
		switch at := value.(type) {
		case map[string]any:
			value = at[name]
		case []any:
			index, err := strconv.Atoi(name)
			if err != nil || index >= len(at) {
				return ""
			}
			value = at[index]
		default:
			return ""
		}
	}
	text, _ := value.(string)
	return text
}

func (r *Runner) normalise(results [][]played) []recording.Exchange {
	normaliser := normalise.New(r.started,
		normalise.Literal{Text: r.stage.Address, Placeholder: "<api>"},
		normalise.Literal{Text: strings.Replace(r.stage.Address, ":", "%3A", 1), Placeholder: "<api>"},
		normalise.Literal{Text: strings.TrimPrefix(r.stage.Issuer, "http://"), Placeholder: "<issuer>"},
	)
	var list []recording.Exchange
	for _, group := range results {
		for _, p := range group {
			scope := normaliser.Exchange(p.exchange.Name)
			exchange := recording.Exchange{Name: p.exchange.Name, Request: shown(p.exchange), Connection: string(p.outcome.End)}
			for _, response := range p.outcome.Responses {
				exchange.Responses = append(exchange.Responses, record(scope, response, p.exchange))
			}
			list = append(list, exchange)
		}
	}
	return list
}
