package read_test

import (
	"testing"
	"time"

	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
)

func TestCurrentUntilANotificationIsReadAndOnlyWithTheListener(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	exam := catalogtest.SampleExam()
	b.publish(t, exam)
	s := b.snapshot(t, read.SnapshotConfig{})
	if s.Current(exam.Key) {
		t.Error("current before the listener is connected")
	}
	testkit.Run(t, s.Run)
	testkit.Eventually(t, "the listener", func() bool { return s.Current(exam.Key) })

	rows := testkit.Begin(t, b.pool, "LOCK TABLE exam_revisions") // holds the refresh
	testkit.Exec(t, b.pool, "SELECT pg_notify('examprep_catalog', $1)", exam.Key)
	testkit.Eventually(t, "the notification", func() bool { return !s.Current(exam.Key) })
	if !s.Current("another-exam") {
		t.Error("a notification of one exam makes another one out of date")
	}
	testkit.Release(t, rows)
	testkit.Eventually(t, "the refresh", func() bool { return s.Current(exam.Key) })

	restore := testkit.CutOff(t, b.pool)
	testkit.Eventually(t, "the listener is lost", func() bool { return !s.Current(exam.Key) })
	restore()
	testkit.Eventually(t, "the listener is back", func() bool { return s.Current(exam.Key) })
}

// TestSilentListenerIsNotCurrent has a listener whose connection stays open, and nothing comes through.
func TestSilentListenerIsNotCurrent(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Sandbox)
	proxy := testkit.StartProxy(t, b.pool.Config().ConnString(), testkit.ProxyOptions{})
	s := catalogtest.OpenPatientSnapshot(t, testkit.Open(t, proxy.URL), read.SnapshotConfig{LoadTimeout: time.Second})
	testkit.Run(t, s.Run)
	testkit.Eventually(t, "the listener", func() bool { return s.Current("an-exam") })
	const pids = "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1 AND pid <> $2"
	silent := testkit.Get[int](t, b.pool, pids, read.ListenerName, 0)
	proxy.Silence()
	testkit.Eventually(t, "another listener", func() bool { return testkit.Get[int](t, b.pool, pids, read.ListenerName, silent) != 0 })
	testkit.Eventually(t, "it has caught up", func() bool { return s.Current("an-exam") })
}
