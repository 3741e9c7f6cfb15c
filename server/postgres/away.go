package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Away reports whether err means that PostgreSQL is unavailable: it does not respond, is starting, stopping, failing over
// or out of connections, the connection broke, or the caller's deadline passed. A retry can succeed. Away does not report
// whether a statement took effect: after a broken connection that is unknown.
func Away(err error) bool {
	var connecting *pgconn.ConnectError
	var network net.Error
	var refusal *pgconn.PgError
	switch {
	case errors.As(err, &connecting), errors.As(err, &network), errors.Is(err, net.ErrClosed), pgconn.SafeToRetry(err):
		return true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true // the server closed the connection
	case errors.As(err, &refusal):
		return serverTrouble(refusal.Code)
	default:
		return false
	}
}

// lockNotAvailable is the SQLSTATE of a wait for a lock that took too long.
const lockNotAvailable = "55P03"

// serverTrouble knows the SQLSTATEs of a server in trouble: connection exceptions (08), insufficient resources (53) and
// operator intervention (57, a shutdown or a cancelled statement); a server that became a standby; and a transaction
// that lost against another one.
func serverTrouble(sqlState string) bool {
	switch sqlState {
	case "25006" /* read only */, "40001" /* serialization */, "40P01" /* deadlock */, lockNotAvailable:
		return true
	}
	return strings.HasPrefix(sqlState, "08") || strings.HasPrefix(sqlState, "53") || strings.HasPrefix(sqlState, "57")
}
