package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// URLError is the error for an invalid database URL. It contains no password.
type URLError struct{ err error }

func (e *URLError) Error() string { return "DATABASE_URL: " + e.err.Error() }
func (e *URLError) Unwrap() error { return e.err }

// DefaultMaxConns is a pool's size if neither its URL nor its options set one. Commits that wait together share one flush of the
// log; pgx's default of 4 on a small machine leaves nothing to share, and on a large one it counts the cores of the node.
const DefaultMaxConns = 20

// idleInTransaction is how long a transaction may wait for its next statement. Without it a server keeps the locks of a client
// whose machine was lost until TCP gives up, after hours.
const idleInTransaction = "30s"

// Options are a process's choices for its pool.
type Options struct {
	// MaxConns is the pool's size if the URL has no pool_max_conns; 0: DefaultMaxConns. A URL with pool_max_conns cannot be
	// used by PostgreSQL's own clients.
	MaxConns int32
	// Full keeps MaxConns connections open from the start. Requests then wait for a new connection only where one broke or
	// expired. Opening one takes seconds when the cluster's DNS or the processors are busy.
	Full bool
	// Traced makes statements spans of the traces that they are part of.
	Traced bool
	// Session has the run-time parameters that are set on each new connection.
	Session map[string]string
}

// Open connects a pool and checks that the server responds. Settings in url (pool_max_conns and the like) win over options
// and defaults. It returns *URLError for an invalid url.
func Open(ctx context.Context, url string, options Options) (*pgxpool.Pool, error) {
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	if cfg.MaxConns == 0 {
		cfg.MaxConns = cmp.Or(options.MaxConns, DefaultMaxConns)
	}
	// Connections that are opened together are not replaced together.
	cfg.MaxConnLifetimeJitter = cmp.Or(cfg.MaxConnLifetimeJitter, cfg.MaxConnLifetime/6)
	if options.Full {
		cfg.MinConns = cfg.MaxConns
	}
	if options.Traced {
		cfg.ConnConfig.Tracer = statementTracer{}
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { return prepare(ctx, conn, options.Session) }
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("reach database: %w", err)
	}
	return pool, nil
}

// parse reads a database URL and adds our defaults. MaxConns is 0 if url does not set it.
func parse(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &URLError{err}
	}
	plain, err := pgx.ParseConfig(url) // keeps the pool's settings as parameters
	if err != nil {
		return nil, &URLError{err}
	}
	if _, set := plain.RuntimeParams["pool_max_conns"]; !set {
		cfg.MaxConns = 0
	}
	if _, set := cfg.ConnConfig.RuntimeParams["application_name"]; !set {
		cfg.ConnConfig.RuntimeParams["application_name"] = "examprep"
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 10 * time.Second // as long as a request may take
	}
	requirePrimary(cfg.ConnConfig)
	return cfg, nil
}

// requirePrimary makes connections go to the primary if the URL names several servers and no target_session_attrs. A standby would
// answer with an older state.
func requirePrimary(cfg *pgx.ConnConfig) {
	another := func(f *pgconn.FallbackConfig) bool { return f.Host != cfg.Host || f.Port != cfg.Port }
	if cfg.ValidateConnect == nil && slices.ContainsFunc(cfg.Fallbacks, another) {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
}

// Separate opens another pool of up to maxConns connections to the same server, with the settings of pool. It connects on first
// use. Its users never wait for a connection of pool.
func Separate(ctx context.Context, pool *pgxpool.Pool, maxConns int32) (*pgxpool.Pool, error) {
	cfg := pool.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = maxConns, 0, 0
	separate, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open a separate database pool: %w", err)
	}
	return separate, nil
}

// Ping returns nil if pool's server responds before ctx ends. If all connections of the pool are in use, it opens another:
// a full pool is not a failure of the server, and has its own metrics (RegisterPool).
func Ping(ctx context.Context, pool *pgxpool.Pool) error {
	if stat := pool.Stat(); stat.AcquiredConns() < stat.MaxConns() {
		return pool.Ping(ctx) //nolint:wrapcheck // callers only check for nil
	}
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return err //nolint:wrapcheck // see above
	}
	return conn.Close(ctx) //nolint:wrapcheck // see above
}

// Connect opens a connection that belongs to no pool, with the types of a pool's connections.
func Connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("reach database: %w", err)
	}
	registerTypes(conn.TypeMap())
	return conn, nil
}

// registerTypes makes UUIDs binary in both directions, and times UTC. Without it each UUID of a list goes through text, which
// takes a worker longer than all the rest of a statement.
func registerTypes(types *pgtype.Map) {
	pgxuuid.Register(types)
	types.RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
}

// prepare makes a new connection ready, within the connect timeout: a pool connects without a deadline. It limits the idle time of
// transactions unless the URL, the role or the database does. Settings are not sent as start-up parameters, because a connection
// pooler in between would refuse them.
func prepare(ctx context.Context, conn *pgx.Conn, session map[string]string) error {
	registerTypes(conn.TypeMap())
	ctx, cancel := context.WithTimeout(ctx, conn.Config().ConnectTimeout)
	defer cancel()
	var batch pgx.Batch
	batch.Queue(`SELECT set_config('idle_in_transaction_session_timeout', $1, false)
		WHERE current_setting('idle_in_transaction_session_timeout') = '0'`, idleInTransaction)
	for name, value := range session {
		batch.Queue("SELECT set_config($1, $2, false)", name, value)
	}
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("set up a connection: %w", err)
	}
	return nil
}
