package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"examprep.dev/hack/dev/process"
)

// RedisConfig describes a private Redis.
type RedisConfig struct {
	Data      string // directory; made at the first start
	Address   string // loopback host:port
	Password  string // without spaces or quotes
	Throwaway bool   // keep nothing on disk: for tests
	Final     bool   // make the supervisor fail at the first death instead of restarting
}

// StartRedis runs a private Redis under s and returns its URL.
func StartRedis(ctx context.Context, s *process.Supervisor, cfg RedisConfig) (string, error) {
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return "", fmt.Errorf("make Redis' directory: %w", err)
	}
	// The password is in a file, because every user can read a command line.
	file := filepath.Join(cfg.Data, "redis.conf")
	if err := os.WriteFile(file, []byte(redisSettings(cfg)), 0o600); err != nil {
		return "", fmt.Errorf("write Redis' settings: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err := s.Start(ctx, process.Spec{
		Name: "redis", Path: redisBin(), Args: []string{file}, Dir: cfg.Data, Store: true, Final: cfg.Final,
		Ready: func(ctx context.Context) error { return ping(ctx, cfg) },
	})
	if err != nil {
		return "", err
	}
	u := url.URL{Scheme: "redis", User: url.UserPassword("", cfg.Password), Host: cfg.Address, Path: "/0"}
	return u.String(), nil
}

func redisSettings(cfg RedisConfig) string {
	host, port, _ := net.SplitHostPort(cfg.Address) // made by us
	lines := []string{"bind " + host, "port " + port, "requirepass " + cfg.Password, "daemonize no", `save ""`, `logfile ""`}
	if cfg.Throwaway {
		lines = append(lines, "appendonly no")
	} else {
		lines = append(lines, "appendonly yes", "appendfsync everysec")
	}
	return strings.Join(lines, "\n") + "\n"
}

// ping returns nil if Redis has read its data; until then Redis replies LOADING. The protocol needs three lines here, so
// no client library is used.
func ping(ctx context.Context, cfg RedisConfig) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", cfg.Address)
	if err != nil {
		return fmt.Errorf("connect to Redis: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(askTime)); err != nil {
		return fmt.Errorf("ask Redis: %w", err)
	}
	if _, err := fmt.Fprintf(conn, "AUTH %s\r\nPING\r\n", cfg.Password); err != nil {
		return fmt.Errorf("ask Redis: %w", err)
	}
	answers := bufio.NewReader(conn)
	for _, want := range []string{"+OK", "+PONG"} {
		line, err := answers.ReadString('\n')
		if err != nil {
			return fmt.Errorf("ask Redis: %w", err)
		}
		if got := strings.TrimSpace(line); got != want {
			return fmt.Errorf("ask Redis: %s", got)
		}
	}
	return nil
}
