package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// probeInterval is short enough for the next scrape or the one after it to show an outage.
	probeInterval = 5 * time.Second
	// probeTimeout is the longest response time of a store that is up: requests cannot use a slower one.
	probeTimeout = 2 * time.Second
)

// Store is a server that a process depends on. Ask returns nil if the server responds, and ends with its context.
type Store struct {
	Name string
	Ask  func(context.Context) error
}

// Prober sets the metric examprep_store_up by asking stores at intervals, so that an outage shows without traffic too.
type Prober struct {
	stores []Store
	up     *prometheus.GaugeVec
}

// NewProber returns a prober of stores. Run starts it.
func NewProber(registerer prometheus.Registerer, stores ...Store) *Prober {
	p := &Prober{stores: stores, up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "examprep_store_up", Help: "1 while the store answered this process within two seconds when it was last asked.",
	}, []string{"store"})}
	registerer.MustRegister(p.up)
	return p
}

// Run asks every five seconds until ctx ends, and then returns nil. A store that does not respond delays the others by at
// most probeTimeout.
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
	if store.Ask(asking) == nil && asking.Err() == nil { // some clients return a response that came too late
		up = 1
	}
	if ctx.Err() == nil { // if ctx has ended, the error is of no store
		p.up.WithLabelValues(store.Name).Set(up)
	}
}
