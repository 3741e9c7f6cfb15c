package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/servers"
	"examprep.dev/hack/dev/state"
)

// environment is one run of `dev up`. The fields are set in the order in which they stand; each step uses those before.
type environment struct {
	root       string
	dir        state.Dir
	console    *console
	ports      *state.Ports
	supervisor *process.Supervisor
	binary     string // bin/examprep

	// set by stores
	databaseURL, redisURL string
	// set by secrets
	namespaceSecret, encryptionKeys string
	// set by startDataPlane
	apiAddress, origin, apiURL, consoleURL string
	receiverURL, apiKey                    string
	signIn                                 []string // settings that tell the API of the sign-in provider
	issuer                                 string   // of the sign-in provider
	// set by startCluster
	kubectl, kubeconfig string
}

// up brings everything up, says so, and stays until ctx ends or something fails for good. Then all is stopped.
func up(ctx context.Context, root string, c *console) error {
	e := &environment{root: root, dir: state.Dir(filepath.Join(root, ".dev")), console: c, binary: filepath.Join(root, "bin", "examprep")}
	release, err := e.dir.Hold()
	if held, ok := errors.AsType[*state.HeldError](err); ok {
		return fmt.Errorf("it runs already, as process %d: .dev/env says how to call it, `make dev-down` stops it", held.PID)
	}
	if err != nil {
		return err
	}
	defer release()
	previous, err := e.dir.ReadEnv(state.EnvFile)
	if err != nil {
		return err
	}
	// A reader that waits for READY must not find that of the last run.
	if err := os.Remove(e.dir.Path(state.EnvFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("take the last run's env file away: %w", err)
	}
	if e.ports, err = e.dir.OpenPorts(); err != nil {
		return err
	}
	if e.supervisor, err = process.New(e.dir.Path("log"), e.dir.Path("pids"), c.sayf); err != nil {
		return err
	}
	defer func() {
		c.sayf("stopping")
		e.supervisor.Stop()
		c.sayf("stopped; nothing is left running")
	}()
	err = e.run(ctx, previous["API_KEY"])
	if ctx.Err() != nil {
		return nil // asked to stop: whatever was under way failed because of that
	}
	return err
}

// run starts one part after the other and waits for the end. The first failure ends all.
func (e *environment) run(ctx context.Context, lastKey string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		select {
		case err := <-e.supervisor.Failed():
			return err
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error {
		if err := e.prepare(ctx); err != nil {
			return err
		}
		if err := e.startDataPlane(ctx, group, lastKey); err != nil {
			return err
		}
		seeded := make(chan struct{})
		group.Go(func() error { defer close(seeded); e.seed(ctx); return nil })
		if err := e.startCluster(ctx); err != nil {
			return err
		}
		<-seeded
		e.seed(ctx) // the declared endpoint is there now
		if err := e.writeEnv(state.Ready()); err != nil {
			return err
		}
		e.console.print(e.help())
		return nil
	})
	return group.Wait()
}

// prepare compiles the project and starts the stores meanwhile.
func (e *environment) prepare(ctx context.Context) error {
	if err := os.MkdirAll(e.dir.Path("bin"), 0o755); err != nil {
		return fmt.Errorf("make .dev/bin: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		e.console.sayf("compiling examprep (minutes the first time, seconds after that)")
		if err := e.build(ctx, e.binary, "."); err != nil {
			return err
		}
		for _, tool := range []string{"receiver", "dev/seed"} {
			if err := e.build(ctx, e.dir.Path("bin", filepath.Base(tool)), "./hack/"+tool); err != nil {
				return err
			}
		}
		e.console.sayf("compiled bin/examprep")
		return nil
	})
	group.Go(func() error { return e.startStores(ctx) })
	return group.Wait()
}

// startStores runs PostgreSQL and Redis, except where the environment names one.
func (e *environment) startStores(ctx context.Context) error {
	e.databaseURL, e.redisURL = os.Getenv("DATABASE_URL"), os.Getenv("REDIS_URL")
	var needs []servers.Need
	if e.databaseURL == "" {
		needs = append(needs, servers.Postgres())
	}
	if e.redisURL == "" {
		needs = append(needs, servers.Redis())
	}
	if err := servers.Require(needs...); err != nil {
		return err
	}
	if e.databaseURL == "" {
		address, password, err := e.seat(ctx, "postgres")
		if err != nil {
			return err
		}
		database, err := databaseName(e.root)
		if err != nil {
			return err
		}
		cfg := servers.PostgresConfig{
			Data: e.dir.Path("postgres"), Address: address, Password: password, Database: database, Replaces: "^examprep",
		}
		if e.databaseURL, err = servers.StartPostgres(ctx, e.supervisor, cfg); err != nil {
			return err
		}
		e.console.sayf("PostgreSQL answers on %s", address)
	}
	if e.redisURL == "" {
		address, password, err := e.seat(ctx, "redis")
		if err != nil {
			return err
		}
		cfg := servers.RedisConfig{Data: e.dir.Path("redis"), Address: address, Password: password}
		if e.redisURL, err = servers.StartRedis(ctx, e.supervisor, cfg); err != nil {
			return err
		}
		e.console.sayf("Redis answers on %s", address)
	}
	return nil
}

// seat gives a store its address and password.
func (e *environment) seat(ctx context.Context, name string) (address, password string, err error) {
	if address, err = e.ports.Address(ctx, name); err != nil {
		return "", "", err
	}
	password, err = e.dir.Secret(name, func() string { return state.RandomHex(16) })
	return address, password, err
}

// writeEnv writes the variables that are known, and more after them.
func (e *environment) writeEnv(more ...state.Variable) error {
	variables := []state.Variable{
		{Name: "API_URL", Value: e.apiURL},
		{Name: "API_KEY", Value: e.apiKey},
		{Name: "DATABASE_URL", Value: e.databaseURL},
		{Name: "REDIS_URL", Value: e.redisURL},
		{Name: "KUBECONFIG", Value: e.kubeconfig},
		{Name: "CONSOLE_URL", Value: e.consoleURL},
		{Name: "RECEIVER_URL", Value: e.receiverURL},
		{Name: "RECEIVER_LOG", Value: e.dir.Path("receiver.jsonl")},
	}
	known := slices.DeleteFunc(variables, func(v state.Variable) bool { return v.Value == "" })
	return e.dir.WriteEnv(state.EnvFile, append(known, more...))
}
