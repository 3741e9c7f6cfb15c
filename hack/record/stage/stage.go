package stage

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Config names the binary and the servers of a stage.
type Config struct {
	Binary      string // a built examprep
	DatabaseURL string // a PostgreSQL server on which databases may be created
	RedisURL    string
}

// Stage is a running server. Close ends it.
type Stage struct {
	// Address is the API's; Issuer the sign-in provider's URL.
	Address, Issuer string
	// Keys are the API keys by their names in the script.
	Keys map[string]string

	cfg      Config
	name     string // of the database
	dir      string
	database string // URL
	closers  []func()
}

// Open sets up a stage. The context bounds the life of its processes.
func Open(ctx context.Context, cfg Config) (*Stage, error) {
	s := &Stage{cfg: cfg, name: "record_" + strings.ToLower(rand.Text()), Keys: make(map[string]string)}
	for _, step := range []func(context.Context) error{
		s.makeDirectory, s.createDatabase, s.migrate, s.startSignIn, s.insertTiers, s.publish, s.createKeys, s.startAPI,
	} {
		if err := step(ctx); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Close stops the processes and drops the database.
func (s *Stage) Close() {
	for len(s.closers) > 0 {
		last := s.closers[len(s.closers)-1]
		s.closers = s.closers[:len(s.closers)-1]
		last()
	}
}

func (s *Stage) later(closer func()) { s.closers = append(s.closers, closer) }

func (s *Stage) makeDirectory(context.Context) error {
	dir, err := os.MkdirTemp("", "examprep-record-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	s.dir = dir
	s.later(func() { _ = os.RemoveAll(dir) })
	return nil
}

// environment returns the settings of every process. The secrets are the same at each capture: nothing of value is
// protected with them.
func (s *Stage) environment() []string {
	secret := func(text string) string {
		return base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("%-32.32s", text)))
	}
	return append(inherited(),
		"DATABASE_URL="+s.database, "REDIS_URL="+s.cfg.RedisURL, "EXAMPREP_REDIS_PREFIX=examprep:"+s.name+":",
		"EXAMPREP_ENVIRONMENT=production", "EXAMPREP_NAMESPACE_SECRET="+secret("namespace of recordings"),
		"EXAMPREP_ENCRYPTION_KEYS=record:"+secret("encryption of recordings"),
	)
}

// inherited returns this process's environment without settings of the product.
func inherited() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "EXAMPREP_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// freeAddress returns a loopback address with a free port.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

func (s *Stage) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}
