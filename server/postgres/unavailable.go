package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Unavailable reports whether err means that PostgreSQL cannot serve now: it does not respond, is starting, stopping, failing
// over or out of connections, the connection broke, or the caller's deadline passed. A retry can succeed. Unavailable does not
// report whether a statement took effect: after a broken connection that is unknown.
func Unavailable(err error) bool {
	_, connecting := errors.AsType[*pgconn.ConnectError](err) // first: it can wrap the server's error
	_, network := errors.AsType[net.Error](err)
	if connecting || network || pgconn.SafeToRetry(err) {
		return true
	}
	if reported, ok := errors.AsType[*pgconn.PgError](err); ok {
		return unavailableState(reported.Code)
	}
	ended := []error{net.ErrClosed, context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF}
	return slices.ContainsFunc(ended, func(cause error) bool { return errors.Is(err, cause) })
}

// The SQLSTATEs of statements that met another transaction, or took too long.
const (
	deadlock         = "40P01"
	serialization    = "40001"
	lockNotAvailable = "55P03"
	statementTimeout = "57014"
)

// unavailableState reports whether a SQLSTATE means that a retry can succeed. Those are connection exceptions (08), insufficient
// resources (53) and operator intervention (57: a shutdown, a cancelled statement). A server that became a standby, and a
// transaction that lost against another one, have codes of their own.
func unavailableState(sqlState string) bool {
	switch sqlState {
	case "25006" /* read only */, "25P03" /* a transaction was idle for too long */, serialization, deadlock, lockNotAvailable:
		return true
	}
	return strings.HasPrefix(sqlState, "08") || strings.HasPrefix(sqlState, "53") || strings.HasPrefix(sqlState, "57")
}
