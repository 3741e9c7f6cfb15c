package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// fewContents is the size that the larger one is compared with.
	fewContents = 1000
)

// standing is what was measured with so many ExamContents.
type standing struct {
	count int
	// again says that it is measured a second time.
	again bool
	// all is from the first apply to the last Ready, applying the applying alone.
	all, applying time.Duration
	// loading is the CPU that this took, an operation being a resource.
	loading sample
	// loadMemory is the operator's peak meanwhile, restartMemory that of the next process, in MB; heap is what is live in
	// the latter when it is idle.
	loadMemory, restartMemory, idleMemory, heap float64
	// listed and restarted are from the operator's start until it had listed all, and until it had nothing left to do.
	listed, restarted time.Duration
	// resync is the CPU of a restart, an operation being a reconcile that finds nothing to do.
	resync sample
	// writes and statements are of one such reconcile.
	writes, statements float64
	// publishWrites are the writes to the API server for a published resource, the one that applied it left out.
	publishWrites, publishStatements float64

	cluster      *cluster
	ready        *readiness
	stopWatching context.CancelFunc
}

// measureOperator publishes ExamContents through a control plane. The machine is not the same all along: a size is compared
// with a smaller one that was measured before and after it, and restarts, which a standing control plane allows, are taken
// right after each other.
func measureOperator(ctx context.Context, s *stack, _ time.Duration, r *report) error {
	if s.examContents <= fewContents {
		alone, err := s.measureStanding(ctx, s.examContents)
		if err == nil {
			alone.report(r)
		}
		return err
	}
	few, err := s.stand(ctx, fewContents)
	if err != nil {
		return err
	}
	defer few.close()
	if err := few.run(ctx, few.load, few.restart, halt); err != nil {
		return err
	}
	many, err := s.stand(ctx, s.examContents)
	if err != nil {
		return err
	}
	defer many.close()
	if err := many.run(ctx, many.load, halt); err != nil {
		return err
	}
	before, after := *few, *few
	for _, m := range []*standing{&before, many, &after} {
		if err := m.run(ctx, m.restart, halt); err != nil {
			return err
		}
	}
	for _, m := range []*standing{few, many} {
		m.close()
		m.report(r)
	}
	again, err := s.measureStanding(ctx, fewContents)
	if err != nil {
		return err
	}
	again.again = true
	again.report(r)
	judgeGrowth(r, "time until all Ready", many, func(m *standing) time.Duration { return m.all }, few, again)
	judgeGrowth(r, "restart to idle", many, func(m *standing) time.Duration { return m.restarted }, &before, &after)
	r.judge(verdict{
		what: fmt.Sprintf("operator, %d / %d: peak memory per further resource", many.count, few.count), unit: " KB", bar: 16,
		measured: (many.peak() - few.peak()) * 1024 / float64(many.count-few.count),
	})
	return nil
}

// measureStanding measures all that is measured of a size.
func (s *stack) measureStanding(ctx context.Context, count int) (*standing, error) {
	m, err := s.stand(ctx, count)
	if err != nil {
		return nil, err
	}
	defer m.close()
	err = m.run(ctx, m.load, m.restart)
	return m, err
}

// stand opens a control plane for so many ExamContents. Close what it returns.
func (s *stack) stand(ctx context.Context, count int) (*standing, error) {
	c, err := s.openCluster(ctx, fmt.Sprintf("cluster-%d", count))
	if err != nil {
		return nil, err
	}
	m := &standing{count: count, cluster: c}
	watching, stopWatching := context.WithCancel(ctx)
	m.stopWatching = stopWatching
	if m.ready, err = c.watchReadiness(watching); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// close ends the watch before the API server, which waits for its clients. Closing again does nothing.
func (m *standing) close() {
	if m.cluster != nil {
		m.stopWatching()
		m.cluster.close()
		m.cluster = nil
	}
}

// run measures step after step.
func (m *standing) run(ctx context.Context, steps ...func(context.Context, *cluster, *readiness) error) error {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	for _, step := range steps {
		if err := step(ctx, m.cluster, m.ready); err != nil {
			return fmt.Errorf("%d ExamContents: %w", m.count, err)
		}
	}
	return nil
}

// load applies all resources while the operator runs, and waits until they are Ready.
func (m *standing) load(ctx context.Context, c *cluster, ready *readiness) error {
	if err := c.prepare(m.count); err != nil {
		return err
	}
	if err := c.startOperator(ctx); err != nil {
		return err
	}
	c.say("applying %d ExamContents", m.count)
	before, err := c.countBoth(ctx)
	if err != nil {
		return err
	}
	w, err := c.watchAll()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.applyAll(ctx, 0, m.count); err != nil {
		return err
	}
	m.applying = time.Since(began)
	last, err := ready.await(ctx, 0, m.count)
	if err != nil {
		return err
	}
	if m.loading, err = w.stop(); err != nil {
		return err
	}
	m.loading.operations, m.all, c.prepared = m.count, last.Sub(began), nil
	c.say("all Ready after %.1f s, applied within %.1f s", m.all.Seconds(), m.applying.Seconds())
	if _, err := c.awaitIdle(ctx, m.count); err != nil {
		return err
	}
	after, err := c.countBoth(ctx)
	if err != nil {
		return err
	}
	m.publishWrites = (after.writes-before.writes)/float64(m.count) - 1
	m.publishStatements = (after.statements - before.statements) / float64(m.count)
	m.loadMemory, err = c.peakMemory()
	return err
}

// counts are what the API server and PostgreSQL have counted.
type counts struct{ writes, statements float64 }

func (c *cluster) countBoth(ctx context.Context) (counted counts, err error) {
	if counted.writes, err = c.writes(ctx); err != nil {
		return counted, err
	}
	counted.statements, err = c.statements(ctx)
	return counted, err
}

func (c *cluster) peakMemory() (float64, error) {
	pid, err := c.pid(processOperator)
	if err != nil {
		return 0, err
	}
	now, err := readMemory(pid)
	return now.peak, err
}

// restart stops the operator and starts it again: it reconciles everything and finds nothing to do.
func (m *standing) restart(ctx context.Context, c *cluster, _ *readiness) error {
	constant, err := c.startupCounts(ctx)
	if err != nil {
		return err
	}
	before, err := c.countBoth(ctx)
	if err != nil {
		return err
	}
	c.say("restarting the operator")
	// The operator's process is new: all that it has used when it is idle, it has used for this.
	w, err := c.watchAll()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.startOperator(ctx); err != nil {
		return err
	}
	m.listed = time.Since(began)
	figures, err := c.awaitIdle(ctx, m.count)
	if err != nil {
		return err
	}
	m.restarted = time.Since(began)
	if m.resync, err = w.stop(); err != nil {
		return err
	}
	if err := m.addOperator(c); err != nil {
		return err
	}
	after, err := c.countBoth(ctx)
	if err != nil {
		return err
	}
	reconciles := figures.reconciles()
	m.resync.operations = int(reconciles)
	m.writes = (after.writes - before.writes - constant.writes) / reconciles
	m.statements = (after.statements - before.statements - constant.statements) / reconciles
	m.heap = figures["go_memstats_heap_alloc_bytes"] / (1 << 20)
	c.say("idle after %.1f s; %d reconciles", m.restarted.Seconds(), m.resync.operations)
	return nil
}

// halt stops the operator: one at a time is measured, and they take each other's addresses.
func halt(_ context.Context, c *cluster, _ *readiness) error {
	c.stopOperator()
	return nil
}

// startupCounts stops the operator and returns what one that watches nothing asks of the API server and PostgreSQL from its
// start on.
func (c *cluster) startupCounts(ctx context.Context) (counts, error) {
	c.stopOperator()
	before, err := c.countBoth(ctx)
	if err != nil {
		return counts{}, err
	}
	if err := c.startOperator(ctx, "EXAMPREP_WATCH_NAMESPACES="+operatorNamespace); err != nil {
		return counts{}, err
	}
	if _, err := c.awaitIdle(ctx, 0); err != nil {
		return counts{}, err
	}
	after, err := c.countBoth(ctx)
	c.stopOperator()
	return counts{after.writes - before.writes, after.statements - before.statements}, err
}

// addOperator adds what a new operator process has used so far to the watch's figures, and notes its memory.
func (m *standing) addOperator(c *cluster) error {
	pid, err := c.pid(processOperator)
	if err != nil {
		return err
	}
	stat, err := readStat(pid)
	if err != nil {
		return fmt.Errorf("read the CPU time of the operator: %w", err)
	}
	m.resync.cpu = append([]spent{{processOperator, stat.own}}, m.resync.cpu...)
	now, err := readMemory(pid)
	m.restartMemory, m.idleMemory = now.peak, now.now
	return err
}

func (m *standing) report(r *report) {
	r.row(fmt.Sprintf("ExamContents made Ready, %d of %d papers of %d", m.count, paperCount, paperQuestions), &m.loading)
	r.row(fmt.Sprintf("  reconciles that find nothing to do, restart with %d", m.count), &m.resync)
	name := func(what string) string {
		if m.again {
			what += ", again"
		}
		return fmt.Sprintf("operator, %d: %s", m.count, what)
	}
	if m.count == fewContents {
		r.judge(verdict{what: name("first apply to last Ready"), unit: " s", bar: 60, measured: m.all.Seconds()})
	}
	r.judge(verdict{what: name("writes to the API server of a no-op reconcile"), bar: 0, measured: m.writes})
	r.judge(verdict{what: name("SQL statements of a no-op reconcile"), bar: 1, measured: m.statements})
	r.judge(verdict{what: name("peak memory of the operator"), unit: " MB", bar: mostMemory, measured: m.peak()})
	table := []string{
		fmt.Sprintf("with %d|", m.count),
		fmt.Sprintf("applied within, by %d at once|%.1f s", appliers, m.applying.Seconds()),
		fmt.Sprintf("all Ready after|%.1f s", m.all.Seconds()),
		fmt.Sprintf("API server writes, SQL statements a published one|%.2f, %.2f", m.publishWrites, m.publishStatements),
		fmt.Sprintf("restart: listed, idle after|%.1f s, %.1f s", m.listed.Seconds(), m.restarted.Seconds()),
		fmt.Sprintf("operator's memory: peak while publishing, at restart; idle; heap|%.0f, %.0f; %.0f; %.0f MB", m.loadMemory, m.restartMemory, m.idleMemory, m.heap),
		fmt.Sprintf("a resync of all each 10 min|%.1f %% of a core", m.resyncShare()),
	}
	r.notef("%s", columns(table))
}

// resyncShare is how much of a core it takes, in all processes together, to reconcile all within the default resync
// interval.
func (m *standing) resyncShare() float64 {
	each := m.resync.micros(processOperator, processAPIServer, processEtcd, processPostgres)
	return 100 * each / 1e6 * float64(m.count) / (10 * time.Minute).Seconds()
}

// judgeGrowth compares what a size took with what a smaller one took before and after.
func judgeGrowth(r *report, what string, many *standing, took func(*standing) time.Duration, before, after *standing) {
	size := float64(many.count) / float64(before.count)
	few := (took(before) + took(after)).Seconds() / 2
	r.judge(verdict{
		what: fmt.Sprintf("operator, %d / %d: %s, per resource", many.count, before.count, what), unit: "×", bar: 1,
		measured: took(many).Seconds() / few / size,
	})
	r.notef("%s: %.1f s with %d, %.1f and %.1f s with %d before and after.",
		what, took(many).Seconds(), many.count, took(before).Seconds(), took(after).Seconds(), before.count)
}

// peak is the operator's peak memory, in MB.
func (m *standing) peak() float64 { return max(m.loadMemory, m.restartMemory) }
