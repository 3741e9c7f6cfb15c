package audit_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/audit"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func actor() audit.Actor {
	return audit.Actor{
		Kind: audit.Developer, Name: audit.Person("https://id.example", "ada"),
		Address: netip.MustParseAddr("2001:db8::7"), RequestID: "req-1",
	}
}

func count(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return testkit.Get[int](t, pool, "SELECT count(*) FROM audit_log")
}

func record(ctx context.Context, t *testing.T, pool *pgxpool.Pool) audit.Entry {
	t.Helper()
	entry := audit.Entry{
		Account: uuid.New(), Action: audit.KeyRevoke, Target: "service_00000000", Detail: map[string]any{"repeated": true},
	}
	check.NoError(t, audit.Record(ctx, pool, entry))
	return entry
}

func TestARecordSaysWhoWhatWhenFromWhereAndInWhichRequest(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	entry := record(audit.WithActor(t.Context(), actor()), t, pool)
	var account uuid.UUID
	var kind, name, action, target, address, request, detail string
	var recent bool
	err := pool.QueryRow(t.Context(), `SELECT account_id, actor_kind, actor, action, target, host(address), request_id,
		detail::text, at BETWEEN now() - interval '1 minute' AND now() FROM audit_log`).
		Scan(&account, &kind, &name, &action, &target, &address, &request, &detail, &recent)
	check.NoError(t, err)
	if account != entry.Account || kind != "developer" || name != "https://id.example#ada" || action != "key.revoke" ||
		target != entry.Target || address != "2001:db8::7" || request != "req-1" || detail != `{"repeated": true}` || !recent {
		t.Errorf("got %v %s %s %s %s %s %s %s %v", account, kind, name, action, target, address, request, detail, recent)
	}
}

func TestChangeWithoutActorIsNotRecorded(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	record(t.Context(), t, pool)
	check.Equal(t, count(t, pool), 0, "records without an actor")
}

func TestActorWithoutAddressIsRecordedWithoutOne(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	record(audit.WithActor(t.Context(), audit.Actor{Kind: audit.Administrator, Name: "root@bastion"}), t, pool)
	if none := testkit.Get[bool](t, pool, "SELECT address IS NULL FROM audit_log"); !none {
		t.Errorf("address is NULL: %v", none)
	}
}

func TestAnActionThatIsRolledBackLeavesNoRecord(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
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

// TestRecordsCannotBeChanged runs as the table's owner, which is a superuser: the rule applies to both.
func TestRecordsCannotBeChanged(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
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
	check.Equal(t, count(t, pool), 1, "records left")
}

// recipe returns the SQL of docs/operations.md about the audit log, from one line to another.
func recipe(t *testing.T, from, to string) string {
	t.Helper()
	_, section, _ := strings.Cut(string(testkit.ReadFile(t, "../../docs/operations.md")), "\n## Audit log\n")
	_, rest, begins := strings.Cut(section, "\n    "+from)
	between, _, ends := strings.Cut(rest, to+"\n")
	if !begins || !ends {
		t.Fatalf("docs/operations.md has no %s … %s", from, to)
	}
	return from + between + to
}

func TestAnOwnerPrunesOnPurpose(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	record(audit.WithActor(t.Context(), actor()), t, pool)
	const old, slice = 5001, 5000
	testkit.Exec(t, pool, `INSERT INTO audit_log (id, at, account_id, actor_kind, actor, action, target, request_id)
		SELECT gen_random_uuid(), now() - interval '8 years', gen_random_uuid(), 'developer', 'ada', 'key.revoke', '', ''
		FROM generate_series(1, $1)`, old)
	prune := recipe(t, "BEGIN;", "COMMIT;")
	for _, left := range []int{1 + old - slice, 1, 1} {
		if _, err := pool.Exec(t.Context(), prune, pgx.QueryExecModeSimpleProtocol); err != nil || count(t, pool) != left {
			t.Fatalf("as docs/operations.md says: %d left, want %d, %v", count(t, pool), left, err)
		}
	}
	if _, err := pool.Exec(t.Context(), "DELETE FROM audit_log"); err == nil {
		t.Error("after that, records can be deleted")
	}
}

func TestPruningGivesUpAfterASecondOfWaiting(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	action := testkit.Begin(t, pool)
	check.NoError(t, audit.Record(audit.WithActor(t.Context(), actor()), action, audit.Entry{Account: uuid.New(), Action: audit.KeyRevoke}))
	_, err := pool.Exec(t.Context(), recipe(t, "BEGIN;", "COMMIT;"), pgx.QueryExecModeSimpleProtocol)
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) || refusal.Code != "55P03" {
		t.Errorf("got %v, want that the lock was not available", err)
	}
}

// TestARoleThatOwnsNothingOnlyAppends follows docs/operations.md with a role for the processes.
func TestARoleThatOwnsNothingOnlyAppends(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	address, err := url.Parse(pool.Config().ConnString())
	check.NoError(t, err)
	database, role := strings.TrimPrefix(address.Path, "/"), "app_"+strings.ReplaceAll(uuid.NewString(), "-", "")
	testkit.Exec(t, pool, "REVOKE CONNECT, TEMPORARY ON DATABASE "+database+" FROM PUBLIC") // as docs/install.md does
	setUp := recipe(t, "CREATE ROLE", "REVOKE UPDATE, DELETE ON audit_log FROM examprep_app;")
	setUp = strings.NewReplacer("examprep_app", role, "DATABASE examprep ", "DATABASE "+database+" ", "…", "secret").Replace(setUp)
	testkit.Exec(t, pool, setUp, pgx.QueryExecModeSimpleProtocol)
	t.Cleanup(func() {
		if _, err := pool.Exec(context.WithoutCancel(t.Context()), fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %s", role, role), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	})
	address.User = url.UserPassword(role, "secret")
	app := testkit.Open(t, address.String())
	as := func(do func(context.Context, pgx.Tx) error) error {
		ctx := audit.WithActor(t.Context(), actor())
		return pgx.BeginFunc(ctx, app, func(tx pgx.Tx) error { return do(ctx, tx) })
	}
	if err := as(func(ctx context.Context, tx pgx.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{Account: uuid.New(), Action: audit.KeyRevoke})
	}); err != nil || count(t, pool) != 1 {
		t.Errorf("%d records, %v", count(t, pool), err)
	}
	check.Succeeds(t, as(func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO accounts (id, name) VALUES (gen_random_uuid(), 'acme')")
		return err
	}), "an account, which is a change of keys")
	for _, statement := range []string{
		"ALTER TABLE audit_log DISABLE TRIGGER audit_log_append_only",
		"DROP TABLE audit_log",
		"DELETE FROM audit_log",
		"UPDATE audit_log SET actor = 'nobody'",
		"TRUNCATE audit_log",
	} {
		err := as(func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, statement); return err })
		var refusal *pgconn.PgError
		if !errors.As(err, &refusal) || strings.Contains(refusal.Message, "append-only") {
			t.Errorf("%s: got %v, want that the role may not", statement, err)
		}
	}
}
