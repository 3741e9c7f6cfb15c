package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"examprep.dev/hack/dev/process"
)

// PgBouncerConfig describes a private PgBouncer for a test.
type PgBouncerConfig struct {
	Data     string // directory, which must not exist; its parents must be open to all users
	Address  string // loopback host:port; all users of the machine can connect
	Server   string // URL of PostgreSQL; PgBouncer connects as its user, to the database that a client names
	PoolMode string // session, transaction or statement
	PoolSize int    // how many connections of the server a database can have
}

// PgBouncerConsole is the name of the database that answers PgBouncer's own commands.
const PgBouncerConsole = "pgbouncer"

// StartPgBouncer runs a private PgBouncer under s, not as root.
func StartPgBouncer(ctx context.Context, s *process.Supervisor, cfg PgBouncerConfig) error {
	owner, err := unprivileged()
	if err != nil {
		return err
	}
	settings, err := pgBouncerSettings(cfg)
	if err != nil {
		return err
	}
	if cfg.Data, err = prepareData(cfg.Data, owner); err != nil {
		return err
	}
	// The password is in a file, because every user can read a command line.
	file := filepath.Join(cfg.Data, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return fmt.Errorf("write PgBouncer's settings: %w", err)
	}
	if owner != nil {
		if err := os.Chown(file, int(owner.Uid), int(owner.Gid)); err != nil {
			return fmt.Errorf("write PgBouncer's settings: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	console := "postgres://" + superuser + "@" + cfg.Address + "/" + PgBouncerConsole + "?sslmode=disable"
	return s.Start(ctx, process.Spec{
		Name: "pgbouncer", Path: Look("pgbouncer"), Args: []string{file}, Dir: cfg.Data, Credential: owner, Store: true,
		Ready: func(ctx context.Context) error { return ask(ctx, console, "SHOW VERSION") },
	})
}

// pgBouncerSettings lets clients in without a password. Its limits of time do not act on a busy machine.
func pgBouncerSettings(cfg PgBouncerConfig) (string, error) {
	server, err := pgx.ParseConfig(cfg.Server)
	if err != nil {
		return "", fmt.Errorf("read the URL of PostgreSQL: %w", err)
	}
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	host, port, _ := net.SplitHostPort(cfg.Address) // made by us
	seconds := fmt.Sprintf("%.0f", startTime.Seconds())
	return strings.Join([]string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%d user=%s password=%s", quote(server.Host), server.Port, quote(server.User), quote(server.Password)),
		"[pgbouncer]", "listen_addr = " + host, "listen_port = " + port, "unix_socket_dir =", "auth_type = any", "admin_users = " + server.User,
		"pool_mode = " + cfg.PoolMode, fmt.Sprintf("default_pool_size = %d", cfg.PoolSize), "max_client_conn = 500",
		"server_tls_sslmode = prefer", "server_login_retry = 1", "server_connect_timeout = " + seconds,
		"client_login_timeout = " + seconds, "query_wait_timeout = " + seconds, "",
	}, "\n"), nil
}
