package gate

import (
	"context"
	"slices"
	"unsafe"

	"github.com/redis/go-redis/v9"
)

// runRedis runs a batch: one script call, or on a Cluster one per group of names that share a slot, in one pipeline.
func (g *Gate) runRedis(asks []*ask) {
	ctx := context.Background() // the requests' contexts end for each of them alone
	var err error
	// Twice: where the server changed, the script did not run, and it is established anew; where trust ran out during
	// the call (only if nobody renewed it in time), what was charged is lost, and the call is made again.
	for range 2 {
		var t *trust
		if t, err = g.trusted(ctx); err != nil {
			break
		}
		start := g.cfg.Now()
		if err = g.callScript(ctx, t, asks); err == nil {
			end := g.cfg.Now()
			g.metrics.called(len(asks), end.Sub(start))
			if t.valid(end) {
				break
			}
			err = errLostTrust
			continue
		}
		g.distrust(t, err)
		if !redis.HasErrorPrefix(err, "NOSCRIPT") {
			break
		}
	}
	for _, a := range asks {
		if err != nil {
			a.outcome = outcome{err: err}
		}
	}
}

func (g *Gate) callScript(ctx context.Context, t *trust, asks []*ask) error {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.CallTimeout)
	defer cancel()
	if g.cluster {
		return g.callCluster(ctx, t, asks)
	}
	scratch, _ := g.scratch.Get().(*scratch)
	defer g.scratch.Put(scratch)
	reply, err := g.call(ctx, scratch, t, asks)
	if err != nil {
		return err
	}
	return readVerdicts(reply, asks)
}

// call sends one script call. Its arguments live in scratch: names are pointers into it, which spares an allocation
// each.
func (g *Gate) call(ctx context.Context, sc *scratch, t *trust, asks []*ask) (string, error) {
	sc.args = append(sc.args[:0], "evalsha", &t.sha, len(asks))
	sc.names, sc.text, sc.asks = sc.names[:0], sc.text[:0], sc.asks[:0]
	size := len(g.cfg.Prefix) + nameSize
	sc.text = slices.Grow(sc.text, size*len(asks))
	sc.names = slices.Grow(sc.names, len(asks))
	for _, a := range asks {
		start := len(sc.text)
		sc.text = a.subject.appendName(sc.text, g.cfg.Prefix)
		name := sc.text[start:]
		sc.names = append(sc.names, unsafe.String(unsafe.SliceData(name), len(name))) //nolint:gosec // text is not written to again before the call ends
		sc.args = append(sc.args, &sc.names[len(sc.names)-1])
		sc.asks = appendAsk(sc.asks, a)
	}
	sc.args = append(sc.args, "c", &t.term, sc.asks)
	sc.args = append(sc.args, g.anonymous.args[:]...)
	cmd := redis.NewCmd(ctx, sc.args...)
	_ = g.rdb.Process(ctx, cmd)
	return cmd.Text()
}

// nameSize is what a record's name has beside the prefix.
const nameSize = len("gate:{00}:") + 32

// appendAsk appends what the script reads about one name: the tokens asked for, and whether it is an address.
func appendAsk(to []byte, a *ask) []byte {
	n := min(a.n, 1<<15-1)
	high := byte(n >> 8)
	if a.subject.address {
		high |= 128
	}
	return append(to, high, byte(n))
}

// callCluster groups asks by slot and sends one call for each group.
func (g *Gate) callCluster(ctx context.Context, t *trust, asks []*ask) error {
	var groups [256][]*ask
	for _, a := range asks {
		tag := a.subject.tag()
		groups[tag] = append(groups[tag], a)
	}
	pipe := g.rdb.Pipeline()
	var cmds []*redis.Cmd
	var sent [][]*ask
	for _, group := range &groups {
		if len(group) == 0 {
			continue
		}
		args := []any{"evalsha", t.sha, len(group)}
		var counts []byte
		for _, a := range group {
			args = append(args, string(a.subject.appendName(nil, g.cfg.Prefix)))
			counts = appendAsk(counts, a)
		}
		args = append(args, "c", t.term, counts)
		args = append(args, g.anonymous.args[:]...)
		cmds = append(cmds, pipe.Do(ctx, args...))
		sent = append(sent, group)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for i, cmd := range cmds {
		reply, err := cmd.Text()
		if err == nil {
			err = readVerdicts(reply, sent[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readVerdicts(reply string, asks []*ask) error {
	var err error
	for _, a := range asks {
		if reply, err = readVerdict(reply, &a.outcome.verdict); err != nil {
			return err
		}
	}
	if reply != "" {
		return &malformedReplyError{left: len(reply)}
	}
	return nil
}
