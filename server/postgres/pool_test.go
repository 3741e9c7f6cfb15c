package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestAMalformedURLIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), "postgres://user:hunter2@localhost:port/db", postgres.Options{})
	if _, ok := errors.AsType[*postgres.URLError](err); !ok {
		t.Fatalf("got %v, want a URLError", err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the password is in %q", err)
	}
}

func TestEachConnectionOfAPoolHasItsSettings(t *testing.T) {
	t.Parallel()
	address := testkit.DatabaseURL(t)
	pool := testkit.Open(t, address, map[string]string{"enable_sort": "off", "jit": "off"})
	one, err := pool.Acquire(t.Context()) // so that the next one is another connection
	check.NoError(t, err)
	defer one.Release()
	for _, query := range []testkit.Session{one, pool} {
		if got := testkit.Get[string](t, query, "SELECT current_setting('enable_sort') || current_setting('jit')"); got != "offoff" {
			t.Errorf("got %q", got)
		}
	}
	if _, err := postgres.Open(t.Context(), address, postgres.Options{Session: map[string]string{"enable_sort": "perhaps"}}); err == nil {
		t.Error("a setting that the server refuses was let pass")
	}
}

// TestTransactionsOfAPoolHaveALimitOfIdleTime: else the locks of a lost machine's client stay. A limit of the URL or of the options stays.
func TestTransactionsOfAPoolHaveALimitOfIdleTime(t *testing.T) {
	t.Parallel()
	address := testkit.DatabaseURL(t)
	limit := func(address string, session map[string]string) string {
		t.Helper()
		pool, err := postgres.Open(t.Context(), address, postgres.Options{Session: session})
		check.NoError(t, err)
		defer pool.Close()
		return testkit.Get[string](t, pool, "SHOW idle_in_transaction_session_timeout")
	}
	check.Equal(t, limit(address, nil), "30s", "the limit by default")
	check.Equal(t, limit(address+"&idle_in_transaction_session_timeout=7s", nil), "7s", "the limit of the URL")
	check.Equal(t, limit(address, map[string]string{"idle_in_transaction_session_timeout": "0"}), "0", "the limit of the options")
}

func TestAFullPoolOpensItsConnectionsBeforeTheyAreUsed(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), testkit.DatabaseURL(t), postgres.Options{MaxConns: 4, Full: true})
	check.NoError(t, err)
	t.Cleanup(pool.Close)
	testkit.Eventually(t, "four idle connections", func() bool { return pool.Stat().IdleConns() == 4 })
	check.Equal(t, pool.Stat().AcquireCount(), 1, "acquisitions, Open's own included")
}

func TestAServerIsThereWhoeverHoldsThePoolsConnections(t *testing.T) {
	t.Parallel()
	pool := testkit.Open(t, testkit.DatabaseURL(t)+"&pool_max_conns=1")
	lent, err := pool.Acquire(t.Context())
	check.NoError(t, err)
	if err := postgres.Ping(t.Context(), pool); err != nil {
		t.Errorf("while the only connection is lent: %v", err)
	}
	restore := testkit.CutOff(t, pool)
	if postgres.Ping(t.Context(), pool) == nil {
		t.Error("a server that is away was found")
	}
	restore()
	lent.Release()
	if err := postgres.Ping(t.Context(), pool); err != nil {
		t.Errorf("with a connection that can be lent: %v", err)
	}
}

// TestAConnectionThatGoesSilentBeforeItIsReadyIsGivenUp: pools make connections without a deadline, and one that never gets
// ready would hold its place for good.
func TestAConnectionThatGoesSilentBeforeItIsReadyIsGivenUp(t *testing.T) {
	t.Parallel()
	silent := false
	for seconds := 1; !silent; seconds *= 2 { // on a busy machine the start can take longer than the time-out
		silent = givesUpASilentServer(t, seconds)
	}
}

// givesUpASilentServer reports whether the server had become silent before the client's time-out.
func givesUpASilentServer(t *testing.T, seconds int) (silent bool) {
	t.Helper()
	address, err := url.Parse(testkit.DatabaseURL(t))
	check.NoError(t, err)
	config, err := pgx.ParseConfig(address.String())
	check.NoError(t, err)
	front := testkit.Listen(t)
	network, server := pgconn.NetworkAddress(config.Host, config.Port)
	hungUp := make(chan bool, 1)
	go func() { hungUp <- muteAfterStart(front, network, server) }()
	address.Host = front.Addr().String()
	query := address.Query()
	query.Set("connect_timeout", strconv.Itoa(seconds))
	query.Set("sslmode", "disable")
	address.RawQuery = query.Encode()
	givenUp := make(chan error, 1)
	go func() {
		_, err := postgres.Open(t.Context(), address.String(), postgres.Options{Session: map[string]string{"jit": "off"}})
		givenUp <- err
	}()
	if err := testkit.Receive(t, givenUp, "the connection is given up"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want it to say that time was up", err)
	}
	return testkit.Receive(t, hungUp, "the client hangs up")
}

// muteAfterStart is a server for one client, who signs in, and is answered nothing more. It returns when the client has
// hung up, and reports whether it was mute then.
func muteAfterStart(front net.Listener, network, server string) bool {
	client, err := front.Accept()
	if err != nil {
		return false
	}
	defer client.Close()
	_ = front.Close() // so requests to cancel a statement fail too
	back, err := net.Dial(network, server)
	if err != nil {
		return false
	}
	defer back.Close()
	hungUp := make(chan struct{})
	var mute atomic.Bool
	go func() {
		defer close(hungUp)
		defer back.Close() // it ends the reading below
		_, _ = io.Copy(writer(func(p []byte) (int, error) {
			if mute.Load() {
				return len(p), nil
			}
			return back.Write(p)
		}), client)
	}()
	for message := make([]byte, 4096); !mute.Load(); {
		n, err := back.Read(message)
		if err != nil {
			return false
		}
		mute.Store(bytes.HasSuffix(message[:n], []byte{'Z', 0, 0, 0, 5, 'I'})) // ReadyForQuery ends the start
		if _, err := client.Write(message[:n]); err != nil {
			return false
		}
	}
	<-hungUp
	return true
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestAListOfUUIDsGoesInBinary(t *testing.T) {
	pool := testkit.Database(t)
	conn, err := pool.Acquire(t.Context())
	check.NoError(t, err)
	defer conn.Release()
	ids := []uuid.UUID{uuid.New(), uuid.New()}
	allocations := testing.AllocsPerRun(10, func() {
		if _, err := conn.Conn().TypeMap().Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, ids, nil); err != nil {
			t.Fatal(err)
		}
	})
	if most := float64(8 * len(ids)); allocations > most { // by way of text it takes 20 for each
		t.Errorf("%v allocations for %d ids, want at most %v", allocations, len(ids), most)
	}
	var back []uuid.UUID
	if err := conn.QueryRow(t.Context(), "SELECT $1::uuid[]", ids).Scan(&back); err != nil || !slices.Equal(back, ids) {
		t.Errorf("got %v and %v back, want %v", back, err, ids)
	}
}

func TestAPoolsSizeIsTheURLsOrTheChosenOrEnoughToShareCommits(t *testing.T) {
	t.Parallel()
	address := testkit.DatabaseURL(t)
	for _, c := range []struct {
		suffix       string
		chosen, want int32
	}{
		{"", 0, 20},
		{"", 2, 2},
		{"", 30, 30},
		{"&pool_max_conns=3", 0, 3},
		{"&pool_max_conns=3", 30, 3},
		{"&application_name=pool_max_conns", 30, 30},
	} {
		pool, err := postgres.Open(t.Context(), address+c.suffix, postgres.Options{MaxConns: c.chosen})
		check.NoError(t, err)
		got := pool.Config().MaxConns
		pool.Close()
		if got != c.want {
			t.Errorf("%q, chosen %d: %d connections, want %d", c.suffix, c.chosen, got, c.want)
		}
	}
}
