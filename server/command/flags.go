package command

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"examprep.dev/server/command/cli"
	"examprep.dev/server/postgres"
)

func environmentFlag(cmd *cobra.Command, target *string) {
	cmd.Flags().StringVar(target, "environment", "", "production or sandbox; must be the database's")
}

func parseEnvironment(value string) (postgres.Environment, error) {
	switch env := postgres.Environment(value); env {
	case postgres.Production, postgres.Sandbox:
		return env, nil
	case "":
		return "", cli.Require("environment", value)
	default:
		return "", &cli.UsageError{Err: fmt.Errorf("--environment: %q is neither production nor sandbox", value)}
	}
}

// processFlags are the settings that api, worker and operator share. The operator has no redisURL.
type processFlags struct {
	program                     Program
	databaseURL, redisURL       string
	environment                 string
	poolMaxConns                int32
	healthListen, metricsListen string
	logLevel                    string
	shutdownGrace               time.Duration
	pprof                       bool
}

func (f *processFlags) register(cmd *cobra.Command) {
	cli.DatabaseFlag(cmd, &f.databaseURL)
	environmentFlag(cmd, &f.environment)
	flags := cmd.Flags()
	flags.Int32Var(&f.poolMaxConns, "pool-max-conns", postgres.DefaultMaxConns,
		"maximum connections to PostgreSQL; pool_max_conns in the URL has precedence, but psql and pg_dump reject such a URL")
	flags.StringVar(&f.healthListen, "health-listen", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&f.metricsListen, "metrics-listen", ":9090", "address of /metrics and /runbooks/")
	flags.BoolVar(&f.pprof, "pprof", false, "serve Go's profiles under /debug/pprof/ at the address of /metrics")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.DurationVar(&f.shutdownGrace, "shutdown-grace", 25*time.Second, "time limit for requests and jobs in progress after SIGTERM")
}

// registerRedis adds the flag of processes that use Redis.
func (f *processFlags) registerRedis(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.redisURL, "redis-url", "", "Redis: redis://, rediss://, sentinel:// or cluster://")
}

// namespaceSecretFlag is the key of the learner namespace; losing it cuts learners off from their history.
func namespaceSecretFlag(cmd *cobra.Command, target *string) {
	cmd.Flags().StringVar(target, "namespace-secret", "", "base64 of at least 32 random bytes: learner references are hashed with it")
}

func parseNamespaceSecret(value string) ([]byte, error) {
	if err := cli.Require("namespace-secret", value); err != nil {
		return nil, err
	}
	secret, err := base64.StdEncoding.DecodeString(value)
	if err != nil || len(secret) < 32 {
		return nil, &cli.UsageError{Err: fmt.Errorf("--namespace-secret: not base64 of at least 32 bytes")}
	}
	return secret, nil
}

func encryptionKeysFlag(cmd *cobra.Command, target *string) {
	cmd.Flags().StringVar(target, "encryption-keys", "", "id:base64 of 32 bytes[,id:base64…]; webhook secrets are encrypted with the first, read with any")
}

func parsePrefixes(flag string, values []string) ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(values))
	for _, value := range values {
		prefix, err := netip.ParsePrefix(value)
		if err != nil {
			return nil, &cli.UsageError{Err: fmt.Errorf("--%s: %w", flag, err)}
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// checkTimes refuses negative times before a command does anything.
func checkTimes(cmd *cobra.Command) (refused error) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if time, err := cmd.Flags().GetDuration(flag.Name); err == nil && time < 0 && refused == nil {
			refused = &cli.UsageError{Err: fmt.Errorf("--%s: %s is negative", flag.Name, time)}
		}
	})
	return refused
}
