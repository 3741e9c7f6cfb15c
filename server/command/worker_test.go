package command

import (
	"bytes"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/webhooks/delivery"
)

func TestAWorkersConnectionsAreSetUpForQueues(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	worker := s.start("worker")
	for setting := range delivery.SessionSettings() {
		testkit.Eventually(t, setting+" was set", func() bool {
			return bytes.Contains(s.Postgres.Traffic().Bytes(), []byte(setting))
		})
	}
	worker.Stop()
}
