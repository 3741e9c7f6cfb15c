package command

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"examprep.dev/server/attempts"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/command/parts"
	"examprep.dev/server/postgres"
	"examprep.dev/server/redisurl"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery"
)

// workerFlags are the settings of a worker.
type workerFlags struct {
	processFlags
	encryptionKeys string
	allowCIDRs     []string
	caFile         string
	retention      time.Duration
}

func newWorker(program Program) *cobra.Command {
	flags := workerFlags{processFlags: processFlags{program: program}}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Deliver webhooks and close attempts whose time is over",
		Args:  cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.open(cmd, "worker", postgres.Options{Session: delivery.SessionSettings()},
				func(ctx context.Context, p *process) error { return runWorker(ctx, p, &flags) })
		},
	}
	flags.register(cmd)
	flags.registerRedis(cmd)
	encryptionKeysFlag(cmd, &flags.encryptionKeys)
	cmd.Flags().StringSliceVar(&flags.allowCIDRs, "webhook-allow-cidr", nil,
		"CIDR ranges outside the public internet that webhooks of endpoints declared in the cluster may reach")
	cmd.Flags().StringVar(&flags.caFile, "webhook-ca-file", "", "PEM file of certificate authorities trusted in addition to the system's")
	cmd.Flags().DurationVar(&flags.retention, "webhook-retention", webhooks.DefaultRetention,
		"retention of deliveries and their attempts, at least 24h; deleted by weekly partition, up to a week later. Events are kept twice as long and two weeks more")
	return cmd
}

// runWorker wires a worker. Its parts need each other for nothing: they start and stop together.
func runWorker(ctx context.Context, p *process, flags *workerFlags) error {
	if err := cli.Require("redis-url", flags.redisURL); err != nil {
		return err
	}
	keyring, err := parseKeyring(flags.encryptionKeys)
	if err != nil {
		return err
	}
	if flags.retention < webhooks.MinRetention {
		return &cli.UsageError{Err: fmt.Errorf("--webhook-retention: must be at least %s", webhooks.MinRetention)}
	}
	allowed, err := parsePrefixes("webhook-allow-cidr", flags.allowCIDRs)
	if err != nil {
		return err
	}
	authorities, err := readCAFile(flags.caFile)
	if err != nil {
		return err
	}
	redisClient, err := redisurl.Open(flags.redisURL, func(o *redis.UniversalOptions) {
		o.MaxRetries = -1 // the worker waits and tries again itself
	})
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	defer func() { _ = redisClient.Close() }()
	worker, err := delivery.New(delivery.Config{
		Prefix: p.installation.RedisPrefix(), Allowed: delivery.Ranges{Declared: allowed}, CAPEM: authorities, Registerer: p.registry, Logger: p.logger,
		Retention: flags.retention, Tracer: p.tracing.Tracer(), StatementTimeout: flags.program.StoreTimeout,
		Timeout: flags.program.ReceiverTimeout, LeaseGrace: flags.program.ReceiverTimeout,
	}, p.pool, redisClient, keyring)
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	collectRarely(workerGrowth)
	p.logger.Info("working", "environment", p.installation.Environment, "version", version())
	front := []parts.Part{
		{Name: "webhooks", Run: worker.Run},
		{Name: "sweeper", Run: attempts.NewSweeper(p.pool, p.logger, p.registry).Run},
	}
	ready := func(context.Context) error { return ctx.Err() }
	p.registerStores(p.pool, redisurl.Client{Name: "webhooks", UniversalClient: redisClient}) // stores are checked at each scrape
	return parts.Run(ctx, p.logger, flags.shutdownGrace, front, p.servers(ready))             // readiness is asked at each scrape
}

func parseKeyring(text string) (*webhooks.Keyring, error) {
	if err := cli.Require("encryption-keys", text); err != nil {
		return nil, err
	}
	keyring, err := webhooks.ParseKeyring(text)
	if err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("--encryption-keys: %w", err)}
	}
	return keyring, nil
}

func readCAFile(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	authorities, err := os.ReadFile(name) //nolint:gosec // the administrator names it
	if err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("--webhook-ca-file: %w", err)}
	}
	return authorities, nil
}
