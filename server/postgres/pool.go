package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// URLError is the error for an invalid database URL. It contains no password.
type URLError struct{ err error }

func (e *URLError) Error() string { return "DATABASE_URL: " + e.err.Error() }
func (e *URLError) Unwrap() error { return e.err }

// DefaultMaxConns is a pool's size where neither its URL nor its options give one. Each writer waits for its own commit,
// and commits that wait together share one flush of the log: pgx's own default of 4 on a small machine leaves nothing to
// share, and on a large one it counts the cores of the whole node, for each pod.
const DefaultMaxConns = 20

// A Setting is a run-time parameter of the server, for each connection of a pool.
type Setting struct{ Name, Value string }

// Options are what a process chooses of its pool.
type Options struct {
	// MaxConns is the pool's size where the URL says no pool_max_conns; 0: DefaultMaxConns. The clients of PostgreSQL
	// itself refuse a URL that says it.
	MaxConns int32
	// Traced is for a process whose traces go somewhere: statements are spans of the traces that they are part of.
	Traced bool
	// Session is set on each new connection.
	Session []Setting
}

// Open is OpenWith no options but settings of the session.
func Open(ctx context.Context, url string, session ...Setting) (*pgxpool.Pool, error) {
	return OpenWith(ctx, url, Options{Session: session})
}

// OpenWith connects a pool and checks that the server answers. Settings in url (pool_max_conns and the like) win over
// options and defaults.
func OpenWith(ctx context.Context, url string, options Options) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &URLError{err}
	}
	if _, set := cfg.ConnConfig.RuntimeParams["application_name"]; !set {
		cfg.ConnConfig.RuntimeParams["application_name"] = "examprep"
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = cmp.Or(options.MaxConns, DefaultMaxConns)
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

// Separate opens another pool of up to maxConns connections to the same server, with the settings of pool. It connects when it is
// used. So its users never wait for a connection of pool, and a wait there is never taken for an outage.
func Separate(ctx context.Context, pool *pgxpool.Pool, maxConns int32) (*pgxpool.Pool, error) {
	cfg := pool.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = maxConns, 0, 0
	separate, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open a separate database pool: %w", err)
	}
	return separate, nil
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

// registerTypes has UUIDs read without a detour, and times read in UTC. Otherwise each UUID of each list goes through text and
// database/sql's interfaces, which takes a worker longer than all the rest of a statement.
func registerTypes(types *pgtype.Map) {
	pgxuuid.Register(types)
	types.RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
}

// prepare makes a new connection ready, within the time that connecting may take. Its settings are not sent as parameters
// of the connection itself, which a pooler between us and the server would refuse; one that gives each transaction another
// connection cannot serve us anyhow, who LISTEN.
func prepare(ctx context.Context, conn *pgx.Conn, session []Setting) error {
	registerTypes(conn.TypeMap())
	if len(session) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, conn.Config().ConnectTimeout) // a pool asks for connections without a deadline
	defer cancel()
	var batch pgx.Batch
	for _, s := range session {
		batch.Queue("SELECT set_config($1, $2, false)", s.Name, s.Value)
	}
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("set up a connection: %w", err)
	}
	return nil
}
