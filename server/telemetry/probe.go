package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// probeInterval is how often a store is asked: a scrape or two sees that it went.
	probeInterval = 5 * time.Second
	// probeTimeout is how long it has to answer: what takes longer is of no use to a request either.
	probeTimeout = 2 * time.Second
)

// Store is a server that a process depends on, and how to ask it whether it is there. Ask ends with its context.
type Store struct {
	Name string
	Ask  func(context.Context) error
}

// Prober asks stores whether they are there, for the metric examprep_store_up: at a moment without traffic nothing else
// would tell.
type Prober struct {
	stores []Store
	up     *prometheus.GaugeVec
}

// NewProber returns a prober of stores; Run begins.
func NewProber(registerer prometheus.Registerer, stores ...Store) *Prober {
	p := &Prober{stores: stores, up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "examprep_store_up", Help: "1 while the store answered this process within two seconds when it was last asked.",
	}, []string{"store"})}
	registerer.MustRegister(p.up)
	return p
}

// Run asks every five seconds until ctx ends, and returns nil then. A store that does not answer keeps none of the others
// from being asked.
func (p *Prober) Run(ctx context.Context) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		for _, store := range p.stores {
			p.ask(ctx, store)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (p *Prober) ask(ctx context.Context, store Store) {
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var up float64
	if store.Ask(asking) == nil && asking.Err() == nil { // some clients hand an answer out that came too late
		up = 1
	}
	if ctx.Err() == nil { // one that was cut short by the end says nothing
		p.up.WithLabelValues(store.Name).Set(up)
	}
}
