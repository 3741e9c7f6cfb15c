package audit_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/postgrestest"
)

func actor() audit.Actor {
	return audit.Actor{
		Kind: audit.Developer, Name: audit.Person("https://id.example", "ada"),
		Address: netip.MustParseAddr("2001:db8::7"), RequestID: "req-1",
	}
}

func count(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	var n int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM audit_log").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func record(ctx context.Context, t *testing.T, pool *pgxpool.Pool) audit.Entry {
	t.Helper()
	entry := audit.Entry{
		Account: uuid.New(), Action: audit.KeyRevoke, Target: "service_00000000", Detail: map[string]any{"repeated": true},
	}
	if err := audit.Record(ctx, pool, entry); err != nil {
		t.Fatal(err)
	}
	return entry
}

func TestARecordSaysWhoWhatWhenFromWhereAndInWhichRequest(t *testing.T) {
	pool := postgrestest.New(t)
	entry := record(audit.WithActor(t.Context(), actor()), t, pool)
	var account uuid.UUID
	var kind, name, action, target, address, request, detail string
	var recent bool
	err := pool.QueryRow(t.Context(), `SELECT account_id, actor_kind, actor, action, target, host(address), request_id,
		detail::text, at BETWEEN now() - interval '1 minute' AND now() FROM audit_log`).
		Scan(&account, &kind, &name, &action, &target, &address, &request, &detail, &recent)
	if err != nil {
		t.Fatal(err)
	}
	if account != entry.Account || kind != "developer" || name != "https://id.example#ada" || action != "key.revoke" ||
		target != entry.Target || address != "2001:db8::7" || request != "req-1" || detail != `{"repeated": true}` || !recent {
		t.Errorf("got %v %s %s %s %s %s %s %s %v", account, kind, name, action, target, address, request, detail, recent)
	}
}

func TestWhatNobodyDoesIsNotRecorded(t *testing.T) {
	pool := postgrestest.New(t)
	record(t.Context(), t, pool)
	if n := count(t, pool); n != 0 {
		t.Errorf("%d records without an actor", n)
	}
}

func TestWhoHasNoAddressHasNone(t *testing.T) {
	pool := postgrestest.New(t)
	record(audit.WithActor(t.Context(), audit.Actor{Kind: audit.Administrator, Name: "root@bastion"}), t, pool)
	var none bool
	if err := pool.QueryRow(t.Context(), "SELECT address IS NULL FROM audit_log").Scan(&none); err != nil || !none {
		t.Errorf("address is NULL: %v, %v", none, err)
	}
}

func TestAnActionThatIsRolledBackLeavesNoRecord(t *testing.T) {
	pool := postgrestest.New(t)
	ctx := audit.WithActor(t.Context(), actor())
	failed := errors.New("the action failed")
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := audit.Record(ctx, tx, audit.Entry{Account: uuid.New(), Action: audit.KeyRevoke}); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) || count(t, pool) != 0 {
		t.Errorf("%d records, %v", count(t, pool), err)
	}
}

// TestRecordsCannotBeChanged runs as the table's owner and a superuser, who are bound like everybody else.
func TestRecordsCannotBeChanged(t *testing.T) {
	pool := postgrestest.New(t)
	record(audit.WithActor(t.Context(), actor()), t, pool)
	for _, statement := range []string{
		"UPDATE audit_log SET actor = 'nobody'",
		"UPDATE audit_log SET actor = 'nobody' WHERE false",
		"DELETE FROM audit_log",
		"TRUNCATE audit_log",
		"TRUNCATE audit_log CASCADE",
		"INSERT INTO audit_log SELECT * FROM audit_log ON CONFLICT (id) DO UPDATE SET actor = 'nobody'",
		"MERGE INTO audit_log a USING audit_log b ON a.id = b.id WHEN MATCHED THEN DELETE",
		"SET LOCAL session_replication_role = replica; DELETE FROM audit_log",
	} {
		_, err := pool.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
		var refusal *pgconn.PgError
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if n := count(t, pool); n != 1 {
		t.Errorf("%d records left, want 1", n)
	}
}

func TestAnAdministratorPrunesOnPurpose(t *testing.T) {
	pool := postgrestest.New(t)
	record(audit.WithActor(t.Context(), actor()), t, pool)
	_, err := pool.Exec(t.Context(), `BEGIN;
		ALTER TABLE audit_log DISABLE TRIGGER audit_log_append_only;
		DELETE FROM audit_log WHERE at < now() + interval '1 second';
		ALTER TABLE audit_log ENABLE ALWAYS TRIGGER audit_log_append_only;
		COMMIT;`, pgx.QueryExecModeSimpleProtocol)
	if err != nil || count(t, pool) != 0 {
		t.Fatalf("as the package comment says: %d left, %v", count(t, pool), err)
	}
	if _, err := pool.Exec(t.Context(), "DELETE FROM audit_log"); err == nil {
		t.Error("after that, records can be deleted")
	}
}
