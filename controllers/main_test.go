package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"k8s.io/client-go/tools/clientcmd"

	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres"
)

// operatorVariable makes this program an operator: a test that kills one needs it in a process of its own. It holds the
// path of a kubeconfig, a database's URL and the namespaces, each after a space.
const operatorVariable = "CONTROLLERS_TEST_OPERATOR"

func TestMain(m *testing.M) {
	if job := os.Getenv(operatorVariable); job != "" {
		if err := runOperator(strings.Fields(job)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	clustertest.Main(m)
}

func runOperator(job []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", job[0])
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, job[1])
	if err != nil {
		return err
	}
	defer pool.Close()
	manager, err := NewManager(config, Options{
		WatchNamespaces: job[2:], Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	if err := Setup(manager, Deps{ClusterName: "test", Publisher: catalog.NewPublisher(pool, postgres.Production)}); err != nil {
		return err
	}
	return manager.Start(ctx)
}
