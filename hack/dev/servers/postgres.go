package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/hack/dev/process"
)

const (
	// superuser is the database role that initdb makes.
	superuser = "examprep"
	// initTime limits initdb, and startTime limits the start with recovery after a crash. They are long, because a start must
	// not fail on a busy machine.
	initTime, startTime = 6 * time.Minute, 6 * time.Minute
	// askTime limits one readiness request.
	askTime = 30 * time.Second
)

// PostgresConfig describes a private PostgreSQL.
type PostgresConfig struct {
	Data     string // directory; made at the first start
	Address  string // loopback host:port
	Password string // of the superuser
	Database string // created if absent
	// Replaces is a regular expression: other databases whose names match are dropped. Empty: none.
	Replaces string
	// Throwaway gives up surviving a crash of the machine for speed, and replication: for tests.
	Throwaway bool
	// Final makes the supervisor fail at the first death of the server instead of restarting it.
	Final bool
	// Settings are more of the server's, as name=value.
	Settings []string
}

// StartPostgres runs a private PostgreSQL under s and returns the URL of its database.
func StartPostgres(ctx context.Context, s *process.Supervisor, cfg PostgresConfig) (string, error) {
	owner, err := unprivileged()
	if err != nil {
		return "", err
	}
	if cfg.Data, err = prepareData(cfg.Data, owner); err != nil {
		return "", err
	}
	if err := initialise(ctx, cfg, owner); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err = s.Start(ctx, process.Spec{
		Name: "postgres", Path: postgresBin("postgres"), Args: postgresArgs(cfg), Dir: cfg.Data, Credential: owner,
		StopSignal: syscall.SIGINT, // PostgreSQL's fast shutdown: sessions end, nothing is lost
		Ready:      func(ctx context.Context) error { return ask(ctx, postgresURL(cfg, "postgres"), "SELECT 1") },
		Store:      true,
		Final:      cfg.Final,
		Occupied:   occupied,
	})
	if err != nil {
		return "", err
	}
	if err := createDatabase(ctx, cfg); err != nil {
		return "", err
	}
	return postgresURL(cfg, cfg.Database), nil
}

// occupied reports whether PostgreSQL refused to start because backends of a killed server still use its shared memory, or
// because that server itself has not ended yet. They end by themselves soon; one that is stopped or busy needs longer.
func occupied(tail string) bool {
	return strings.Contains(tail, "pre-existing shared memory block") || strings.Contains(tail, `lock file "postmaster.pid" already exists`)
}

func postgresArgs(cfg PostgresConfig) []string {
	host, port, _ := net.SplitHostPort(cfg.Address) // made by us
	settings := []string{"listen_addresses=" + host, "port=" + port, "unix_socket_directories=", "log_line_prefix=%m [%p] "}
	if cfg.Throwaway {
		// Packages test in parallel, each test with pools of its own.
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0",
			"jit=off", "max_connections=500", "autovacuum_naptime=10min")
	} else {
		settings = append(settings, "max_connections=200")
	}
	settings = append(settings, cfg.Settings...)
	args := []string{"-D", cfg.Data}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// initialise makes the database cluster unless it exists.
func initialise(ctx context.Context, cfg PostgresConfig, owner *syscall.Credential) error {
	if _, err := os.Stat(filepath.Join(cfg.Data, "PG_VERSION")); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	// initdb reads the password from a file that its user can read: a pipe is one.
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	defer read.Close()
	if _, err := write.WriteString(cfg.Password + "\n"); err != nil { // fits a pipe's buffer
		return fmt.Errorf("initdb: %w", err)
	}
	_ = write.Close()
	if owner != nil { // opening /dev/fd/3 asks for the right to open what it is
		if err := read.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return fmt.Errorf("initdb: %w", err)
		}
	}
	method := "scram-sha-256"
	if cfg.Throwaway {
		method = "md5" // tests open thousands of connections, and a SCRAM exchange costs milliseconds of CPU time each
	}
	cmd := exec.CommandContext(ctx, postgresBin("initdb"), "-D", cfg.Data, "-U", superuser, "--auth="+method,
		"--pwfile=/dev/fd/3", "--encoding=UTF8", "--locale=C", "--no-instructions")
	if cfg.Throwaway {
		cmd.Args = append(cmd.Args, "--no-sync")
	}
	cmd.ExtraFiles = []*os.File{read}
	cmd.Dir = cfg.Data
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Setpgid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// unprivileged returns the user that runs PostgreSQL if the current user is root, and nil if not.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(account.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(account.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and this machine has neither a user postgres nor a user nobody")
}

func postgresURL(cfg PostgresConfig, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(superuser, cfg.Password), Host: cfg.Address, Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// ask runs one statement on a connection of its own.
func ask(ctx context.Context, database, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("ask PostgreSQL: %w", err)
	}
	return nil
}

func createDatabase(ctx context.Context, cfg PostgresConfig) error {
	conn, err := pgx.Connect(ctx, postgresURL(cfg, "postgres"))
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close(ctx)
	var there bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", cfg.Database).Scan(&there)
	if err == nil && !there {
		_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{cfg.Database}.Sanitize())
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", cfg.Database, err)
	}
	if cfg.Replaces == "" {
		return nil
	}
	rows, _ := conn.Query(ctx, "SELECT datname FROM pg_database WHERE datname ~ $1 AND datname <> $2", cfg.Replaces, cfg.Database)
	replaced, err := pgx.CollectRows(rows, pgx.RowTo[string]) // reports the query's error as well
	if err != nil {
		return fmt.Errorf("list databases: %w", err)
	}
	for _, name := range replaced {
		if _, err := conn.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("drop database %s: %w", name, err)
		}
	}
	return nil
}
