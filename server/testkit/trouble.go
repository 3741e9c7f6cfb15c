package testkit

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Trouble is what is wrong with one row.
type Trouble string

// The troubles of a row.
const (
	// Poisoned makes PostgreSQL refuse each statement that writes the row.
	Poisoned Trouble = "poisoned"
	// Locked makes another transaction lock the row.
	Locked Trouble = "locked"
	// Slow makes each statement that writes the row slow, but not too slow for its time-out.
	Slow Trouble = "slow"
)

// Troubles returns each kind of trouble. Whatever trouble one row has, a loop over rows must finish the others.
func Troubles() []Trouble { return []Trouble{Poisoned, Locked, Slow} }

// Begin begins a trouble with one row of a table, and returns what ends it. column is a key of the table, value the row's as
// PostgreSQL writes it. Rows with that key that are inserted later have the trouble too, except Locked.
func (kind Trouble) Begin(t testing.TB, pool *pgxpool.Pool, table, column, value string) (end func()) {
	t.Helper()
	row := func(prefix string) string {
		return prefix + column + "::text = '" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	if kind == Locked {
		tx := Begin(t, pool, "SELECT FROM "+table+" WHERE "+row("")+" FOR UPDATE")
		return func() { t.Helper(); Release(t, tx) }
	}
	act := "PERFORM pg_sleep(0.2)"
	if kind == Poisoned {
		act = "RAISE EXCEPTION 'poisoned'"
	}
	name := pgx.Identifier{"trouble_" + uuid.NewString()}.Sanitize()
	Exec(t, pool, "CREATE FUNCTION "+name+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+act+
		"; IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$")
	for _, event := range []struct{ name, row string }{{"INSERT", "NEW."}, {"UPDATE OR DELETE", "OLD."}} {
		trigger := pgx.Identifier{"trouble " + event.name[:6] + uuid.NewString()}.Sanitize()
		Exec(t, pool, "CREATE TRIGGER "+trigger+" BEFORE "+event.name+" ON "+table+" FOR EACH ROW WHEN ("+row(event.row)+
			") EXECUTE FUNCTION "+name+"()")
	}
	return func() { t.Helper(); Exec(t, pool, "DROP FUNCTION "+name+" CASCADE") }
}
