//go:build e2e

package cluster

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// measureFigures prints what the chart's page says of sizes: CPU a request and memory a pod by component, for reading
// alone and for whole sittings, and what an attempt leaves in PostgreSQL and in Redis.
func measureFigures(t *testing.T, r *release, papers []*crowdtest.Paper) {
	for _, component := range components {
		r.awaitWhole(t, component)
	}
	t.Run("reading", func(t *testing.T) { r.measure(t, func() *crowdtest.Meter { return r.read(t, papers) }) })
	t.Run("sitting", func(t *testing.T) {
		database, redis, before := r.databaseBytes(t), r.redisBytes(t), r.count(t, "attempts")
		r.stores.receiver.Forget(t)
		api := r.api.Paced(unpaced)
		var crowd *crowdtest.Crowd
		r.measure(t, func() *crowdtest.Meter {
			crowd = crowdtest.Start(t.Context(), api, crowdtest.Config{Clients: *clients, Seed: *seed, Papers: papers})
			eventually(t, 20*time.Minute, "enough attempts", func() bool { return r.count(t, "attempts")-before >= *figures })
			crowd.Stop(t)
			return api.Meter
		})
		crowd.CheckKept(t, r.api, r.stores.receiver)
		attempts := r.count(t, "attempts") - before
		t.Logf("%d attempts: PostgreSQL keeps %d bytes of each, Redis %d (%s keys in all)", attempts,
			(r.databaseBytes(t)-database)/attempts, (r.redisBytes(t)-redis)/attempts, r.redisCLI(t, "dbsize"))
	})
}

const (
	// unpaced is a rate that no client reaches.
	unpaced = 1e6
	// readingTime is how long reading is measured, accountTime how old a kubelet's account may be.
	readingTime = time.Minute
	accountTime = 20 * time.Second
)

// read lets all clients read overviews as fast as they can.
func (r *release) read(t *testing.T, papers []*crowdtest.Paper) *crowdtest.Meter {
	t.Helper()
	api := r.api.Paced(unpaced)
	var readers errgroup.Group
	over := time.Now().Add(readingTime)
	for i := range *clients {
		readers.Go(func() error {
			var body []byte
			path := crowdtest.Path(papers[i%len(papers)].Exam, "/overview")
			for time.Now().Before(over) {
				if err := api.Call(t.Context(), crowdtest.OpOverview, http.MethodGet, path, nil, &body); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}
	return api.Meter
}

func (r *release) measure(t *testing.T, load func() *crowdtest.Meter) {
	t.Helper()
	pass(t, accountTime)
	before := r.usage(t)
	meter := load()
	pass(t, accountTime)
	requests := meter.Count(func(int) bool { return true })
	t.Logf("%d requests\n%s", requests, meter)
	after := r.usage(t)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		cpu := after[name].cpu - before[name].cpu
		t.Logf("%s: %.1f CPU-s, %.0f µs a request (%.0f requests/s a core), at most %.0f MiB a pod", name, cpu.Seconds(),
			float64(cpu.Microseconds())/float64(requests), float64(requests)/cpu.Seconds(), float64(after[name].memory)/(1<<20))
	}
}

type used struct {
	cpu    time.Duration
	memory int64 // bytes, the most that one pod holds
}

// nodeSummary is what of a kubelet's account concerns us.
type nodeSummary struct {
	Pods []struct {
		Pod struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"podRef"`
		Containers []struct {
			CPU struct {
				Nanoseconds int64 `json:"usageCoreNanoSeconds"`
			} `json:"cpu"`
			Memory struct {
				Bytes int64 `json:"workingSetBytes"`
			} `json:"memory"`
		} `json:"containers"`
	} `json:"pods"`
}

// usage reads every node's own account, by component of the release or by the name of a store.
func (r *release) usage(t *testing.T) map[string]used {
	t.Helper()
	all := map[string]used{}
	for node := range strings.FieldsSeq(r.kubectl(t, "", "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")) {
		var summary nodeSummary
		testkit.Decode(t, []byte(r.kubectl(t, "", "get", "--raw", "/api/v1/nodes/"+node+"/proxy/stats/summary")), &summary)
		for _, pod := range summary.Pods {
			name := r.component(t, pod.Pod.Namespace, pod.Pod.Name)
			if name == "" {
				continue
			}
			sum := all[name]
			for _, container := range pod.Containers {
				sum.cpu += time.Duration(container.CPU.Nanoseconds)
				sum.memory = max(sum.memory, container.Memory.Bytes)
			}
			all[name] = sum
		}
	}
	return all
}

// component is what a pod is part of, "" if nothing of ours.
func (r *release) component(t *testing.T, podNamespace, pod string) string {
	t.Helper()
	if podNamespace == storesNamespace {
		name, _, _ := strings.Cut(pod, "-")
		return name
	}
	for _, component := range components {
		if podNamespace == r.namespace && strings.HasPrefix(pod, r.deployment(t, component).Name+"-") {
			return component
		}
	}
	return ""
}

func (r *release) count(t *testing.T, table string) int {
	t.Helper()
	return atoi(t, r.psql(t, r.database(t), "SELECT count(*) FROM "+table))
}

func (r *release) databaseBytes(t *testing.T) int {
	t.Helper()
	return atoi(t, r.psql(t, r.database(t), "SELECT pg_database_size(current_database())"))
}

// database is the one that the release runs on.
func (r *release) database(t *testing.T) string {
	t.Helper()
	return r.psql(t, "postgres", "SELECT datname FROM pg_stat_activity WHERE datname LIKE 'examprep%' GROUP BY 1 ORDER BY count(*) DESC LIMIT 1")
}

func (r *release) redisBytes(t *testing.T) int {
	t.Helper()
	for line := range strings.Lines(r.redisCLI(t, "info", "memory")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory_dataset:"); ok {
			return atoi(t, value)
		}
	}
	t.Fatal("Redis does not say what it uses")
	return 0
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	check.NoError(t, err)
	return n
}
