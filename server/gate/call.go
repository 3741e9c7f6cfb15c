package gate

import (
	"context"
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/redis/go-redis/v9"
)

// runRedis runs a batch: one script call, or on a Cluster one per group of names that share a slot, in one pipeline.
func (g *Gate) runRedis(asks []*ask) {
	ctx := context.Background() // the requests' contexts end for each of them alone
	var err error
	// Twice: where the server changed, the script did not run, and it is established anew; where trust ran out during
	// the call (only if nobody renewed it in time), the keys are looked at again, and those still valid keep what they were granted.
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
			holdGrants(asks)
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
			continue
		}
		a.outcome.verdict.granted += a.held
	}
}

// holdGrants keeps what an answer granted that does not count: the tokens are taken, and whoever is still valid by the
// next answer has them. Of who is not, nobody reads how many there were.
func holdGrants(asks []*ask) {
	for _, a := range asks {
		a.held += a.outcome.verdict.granted
	}
}

// wanted is how many tokens a call is to ask for: those that no answer which did not count has granted.
func (a *ask) wanted() int { return a.n - a.held }

func (g *Gate) callScript(ctx context.Context, t *trust, asks []*ask) error {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.CallTimeout)
	defer cancel()
	if g.cluster {
		return g.callCluster(ctx, t, asks)
	}
	scratch, _ := g.scratch.Get().(*scratch)
	defer g.scratch.Put(scratch)
	cmd := redis.NewCmd(ctx, g.arguments(scratch, t, &g.records[0], asks)...)
	g.process(ctx, cmd)
	reply, err := cmd.Text()
	if err != nil {
		return err
	}
	return readVerdicts(reply, asks)
}

// process makes a call that is not to wait for a look at the pool, if that can be.
func (g *Gate) process(ctx context.Context, cmd redis.Cmder) {
	if g.lines == nil {
		_ = g.rdb.Process(ctx, cmd)
		return
	}
	g.lines.process(ctx, cmd)
}

// arguments makes the arguments of one script call about asks whose records are in one hash. They live in sc: strings are
// pointers into it, which spares an allocation each; but of records, the client on a Cluster reads the slot, and does not
// follow pointers.
func (g *Gate) arguments(sc *scratch, t *trust, records any, asks []*ask) []any {
	sc.fields, sc.counts, sc.names, sc.counted = sc.fields[:0], sc.counts[:0], sc.names[:0], sc.counted[:0]
	addresses := 0
	for _, a := range asks {
		if a.subject.address {
			sc.names = a.subject.appendName(sc.names, g.cfg.Prefix)
			sc.counted = appendCount(sc.counted, a.wanted())
			addresses++
			continue
		}
		const shortString = 0xa0 // of MessagePack, plus the length
		sc.fields = append(append(sc.fields, shortString|fieldSize), a.subject.id[:fieldSize]...)
		sc.counts = appendCount(sc.counts, a.wanted())
	}
	sc.args = append(sc.args[:0], "evalsha", &t.sha, 1+addresses, records)
	sc.texts = slices.Grow(sc.texts[:0], addresses+3)
	size := len(g.cfg.Prefix) + nameSize
	for i := range addresses {
		sc.text(sc.names[i*size : (i+1)*size])
	}
	sc.args = append(sc.args, "c", &t.term)
	sc.text(sc.fields)
	sc.text(sc.counts)
	if addresses > 0 {
		sc.text(sc.counted)
		sc.args = append(sc.args, g.anonymous.args[:]...)
	}
	return sc.args
}

// scratch is the memory of one script call.
type scratch struct {
	args    []any
	texts   []string // what args point to
	fields  []byte
	counts  []byte
	names   []byte // of addresses
	counted []byte // the tokens asked of them
}

// text appends an argument that is not written to again before the call ends.
func (sc *scratch) text(of []byte) {
	sc.texts = append(sc.texts, unsafe.String(unsafe.SliceData(of), len(of))) //nolint:gosec // as said
	sc.args = append(sc.args, &sc.texts[len(sc.texts)-1])
}

// appendCount appends how many tokens are asked for, as the script reads it.
func appendCount(to []byte, n int) []byte {
	return binary.BigEndian.AppendUint16(to, uint16(min(n, mostTokens)))
}

// callCluster groups asks by slot and sends one call for each group, all in one pipeline.
func (g *Gate) callCluster(ctx context.Context, t *trust, asks []*ask) error {
	var groups [clusterHashes][]*ask
	for _, a := range asks {
		tag := a.subject.tag()
		groups[tag] = append(groups[tag], a)
	}
	pipe := g.rdb.Pipeline()
	var cmds []*redis.Cmd
	var sent [][]*ask
	for tag, group := range &groups {
		if len(group) == 0 {
			continue
		}
		cmds = append(cmds, pipe.Do(ctx, g.arguments(&scratch{}, t, g.records[tag], group)...))
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
