package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"examprep.dev/api/v1alpha1"
)

const (
	idlePoll = 50 * time.Millisecond
	// loadTime bounds all waiting for one size.
	loadTime = 30 * time.Minute
)

// operatorMetrics reads the operator's metrics.
func (c *cluster) operatorMetrics(ctx context.Context) (metrics, error) {
	return c.metricsOf(ctx, processOperator)
}

// reconciles is how many reconciles of ExamContents this operator process has ended.
func (m metrics) reconciles() float64 {
	return m.sum("controller_runtime_reconcile_total", `controller="examcontent"`)
}

// idle says whether no resource waits or is worked on.
func (m metrics) idle() bool {
	return m.sum("workqueue_depth", `name="examcontent"`) == 0 && m.sum("controller_runtime_active_workers", `controller="examcontent"`) == 0
}

// awaitIdle waits until the operator has ended at least so many reconciles and has nothing to do, and returns its figures
// then.
func (c *cluster) awaitIdle(ctx context.Context, atLeast int) (metrics, error) {
	ticker := time.NewTicker(idlePoll)
	defer ticker.Stop()
	for {
		found, err := c.operatorMetrics(ctx)
		if err == nil && found.reconciles() >= float64(atLeast) && found.idle() {
			return found, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("the operator is not idle: %w", context.Cause(ctx))
		}
	}
}

// writes is how many requests that change one of our kinds the API server has taken, and how many events are told of them.
// Those of an operator that leads or stops to lead come when they come, and are not about a resource.
func (c *cluster) writes(ctx context.Context) (float64, error) {
	text, err := c.get(ctx, "/metrics")
	if err != nil {
		return 0, fmt.Errorf("ask kube-apiserver for its metrics: %w", err)
	}
	found := parseMetrics(text)
	total, err := c.events(ctx)
	for _, verb := range []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"} {
		total += found.sum("apiserver_request_total", `verb="`+verb+`"`, `group="`+v1alpha1.GroupVersion.Group+`"`)
	}
	return total, err
}

// events is how many events are told of the resources.
func (c *cluster) events(ctx context.Context) (float64, error) {
	text, err := c.get(ctx, "/apis/events.k8s.io/v1/namespaces/"+contentNamespace+"/events?limit=1")
	if err != nil {
		return 0, fmt.Errorf("list events: %w", err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(text, &list); err != nil {
		return 0, fmt.Errorf("list events: %w", err)
	}
	total := len(list.Items)
	if list.RemainingItemCount != nil {
		total += int(*list.RemainingItemCount)
	}
	return float64(total), nil
}

// ask runs a statement in the database beside the operator's.
func (c *cluster) ask(ctx context.Context, statement string, targets ...any) error {
	conn, err := pgx.Connect(ctx, c.statistics)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close(ctx)
	if len(targets) == 0 {
		_, err = conn.Exec(ctx, statement)
	} else {
		err = conn.QueryRow(ctx, statement).Scan(targets...)
	}
	if err != nil {
		return fmt.Errorf("ask PostgreSQL: %w", err)
	}
	return nil
}

// statements is how many statements PostgreSQL has executed in the operator's database, by whoever.
func (c *cluster) statements(ctx context.Context) (total float64, err error) {
	err = c.ask(ctx, `SELECT coalesce(sum(s.calls), 0)::float8
		FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = 'operator'`, &total)
	return total, err
}
