package webhooks

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// idAt returns a new delivery's id of a moment.
func idAt(at time.Time) uuid.UUID {
	id := uuid.New()
	var millis [8]byte
	binary.BigEndian.PutUint64(millis[:], uint64(at.UnixMilli()))
	copy(id[:6], millis[2:])
	id[6] = id[6]&0x0f | 0x70
	return id
}

// written are deliveries to write, and the order of lists: newest first.
type written []Delivery

func (w written) write(t *testing.T, b *bench, account, endpoint uuid.UUID) {
	t.Helper()
	slices.SortFunc(w, func(a, b Delivery) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	var ids []uuid.UUID
	var kinds, states []string
	var created []time.Time
	for _, d := range w {
		ids, kinds, states, created = append(ids, d.ID), append(kinds, string(d.Kind)), append(states, string(d.State)), append(created, d.CreatedAt)
	}
	testkit.Exec(t, b.pool, `WITH rows AS (
			SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS kind, unnest($3::text[]) AS state, unnest($4::timestamptz[]) AS at
		), events AS (INSERT INTO webhook_events (id, kind, account_id, body) SELECT id, kind, $5, '{}' FROM rows)
		INSERT INTO webhook_deliveries (id, endpoint_id, event_id, event, state, created_at, finished_at)
		SELECT id, $6, id, kind, state, at, CASE WHEN state <> 'pending' THEN at END FROM rows`,
		ids, kinds, states, created, account, endpoint)
}

func (w written) selected(filter DeliveryFilter) (ids []uuid.UUID) {
	for _, d := range w {
		if (filter.State == "" || d.State == filter.State) && (filter.Kind == "" || d.Kind == filter.Kind) && !d.CreatedAt.Before(filter.Since) {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// TestListFindsWhatItsFilterSelects walks lists of drawn deliveries by drawn filters, with pages that end where the walk ends, and
// compares the result with the deliveries.
func TestListFindsWhatItsFilterSelects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	states, kinds := append(States(), ""), append(Kinds(), KindTest, "")
	rapid.Check(t, func(rt *rapid.T) {
		account, endpoint := b.registered(t, "https://receiver.example.com/")
		var all written
		now := time.Now().UTC().Truncate(time.Microsecond)
		for range rapid.IntRange(0, 30).Draw(rt, "deliveries") {
			at := now.Add(-time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "age in µs")) * time.Microsecond)
			late := time.Duration(rapid.IntRange(0, 3).Draw(rt, "id's delay in ms")) * time.Millisecond
			all = append(all, Delivery{
				ID: idAt(at.Add(late)), CreatedAt: at, State: rapid.SampledFrom(States()).Draw(rt, "state"),
				Kind: rapid.SampledFrom(append(Kinds(), KindTest)).Draw(rt, "kind"),
			})
		}
		all.write(t, b, account, endpoint.ID)
		filter := DeliveryFilter{State: rapid.SampledFrom(states).Draw(rt, "filter's state"), Kind: rapid.SampledFrom(kinds).Draw(rt, "filter's kind")}
		if len(all) > 0 && rapid.Bool().Draw(rt, "since") {
			filter.Since = rapid.SampledFrom(all).Draw(rt, "since one").CreatedAt.Add(time.Duration(rapid.IntRange(-1, 1).Draw(rt, "µs")) * time.Microsecond)
		}
		limit, walk := rapid.IntRange(1, 4).Draw(rt, "limit"), rapid.Int32Range(1, 12).Draw(rt, "walk")
		var walked []uuid.UUID
		for more, pages := true, 0; more; pages++ {
			page, err := list(t.Context(), b.deliveries.queries, account, endpoint.ID, filter, limit, walk)
			check.NoError(rt, err)
			if len(page.Deliveries) > limit || pages > len(all) || page.More != (page.NextBefore != uuid.Nil) {
				rt.Fatalf("page %d of %d deliveries: %+v", pages, len(all), page)
			}
			for _, d := range page.Deliveries {
				walked = append(walked, d.ID)
			}
			more, filter.Before = page.More, uuid.NullUUID{UUID: page.NextBefore, Valid: true}
		}
		check.Slices(rt, walked, all.selected(filter), "deliveries, page by page")
	})
}

// fill writes n deliveries of one state to an endpoint.
func (b *bench) fill(t *testing.T, account, endpoint uuid.UUID, kind Kind, state State, n int) {
	t.Helper()
	testkit.Exec(t, b.pool, `WITH event AS (
			INSERT INTO webhook_events (id, kind, account_id, body) SELECT uuidv7(), $1, $2, '{}' FROM generate_series(1, $5::int) RETURNING id)
		INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event, state, finished_at)
		SELECT uuidv7(), id, $3, $1, $4, CASE WHEN $4 <> 'pending' THEN now() END FROM event`, string(kind), account, endpoint, string(state), n)
}

// TestListReadsNoMoreThanItsWalk lists by each filter where few of very many deliveries match, before and after the planner has
// statistics, and with plans for any values.
func TestListReadsNoMoreThanItsWalk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	for _, few := range States() {
		b.fill(t, account, endpoint.ID, KindContentUpdated, few, 3)
	}
	const others, walk, slack = 20_000, 2000, 100
	b.fill(t, account, endpoint.ID, KindScored, StateDelivered, others)
	b.fill(t, account, b.otherEndpoint(t, account), KindScored, StateFailed, others)
	testkit.UnderEachPlan(t, b.pool, "webhook_deliveries, webhook_events, webhook_endpoints", func(tx pgx.Tx, how string) {
		q := webhooksdb.New(tx)
		check.NoError(t, q.ReadByIndex(t.Context()))
		for _, c := range []struct {
			filter      DeliveryFilter
			found, most int
		}{
			{DeliveryFilter{}, 50, slack},
			{DeliveryFilter{State: StatePending}, 3, slack},
			{DeliveryFilter{State: StateFailed}, 3, slack},
			{DeliveryFilter{State: StateCancelled, Kind: KindContentUpdated}, 3, slack},
			{DeliveryFilter{State: StateDelivered}, 50, slack},
			{DeliveryFilter{State: StateDelivered, Kind: KindScored}, 50, slack},
			{DeliveryFilter{Kind: KindContentUpdated}, 0, walk + slack},
			{DeliveryFilter{Since: time.Now().Add(time.Hour)}, 0, slack},
		} {
			before := testkit.RowsRead(t, tx, "webhook_deliveries")
			page, err := list(t.Context(), q, account, endpoint.ID, c.filter, 50, walk)
			check.NoError(t, err)
			read := testkit.RowsRead(t, tx, "webhook_deliveries") - before
			if len(page.Deliveries) != c.found || read > c.most {
				t.Errorf("%s, %+v: found %d by reading %d rows, want %d by %d at most", how, c.filter, len(page.Deliveries), read, c.found, c.most)
			}
		}
	})
}

// otherEndpoint returns a further endpoint of an account.
func (b *bench) otherEndpoint(t *testing.T, account uuid.UUID) uuid.UUID {
	t.Helper()
	made, _, err := b.endpoints.Register(t.Context(), Registration{AccountID: account, URL: "https://receiver.example.com/", Events: Kinds()})
	check.NoError(t, err)
	return made.ID
}

// TestPageEndsAfterTenThousandDeliveries has one match behind as many deliveries as one page reads, and one more.
func TestPageEndsAfterTenThousandDeliveries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	b.fill(t, account, endpoint.ID, KindTest, StatePending, 1)
	b.fill(t, account, endpoint.ID, KindScored, StatePending, MaxWalk+1)
	ids := testkit.List[uuid.UUID](t, b.pool, "SELECT id FROM webhook_deliveries ORDER BY id")
	for _, state := range []State{"", StatePending} { // more are pending than are sorted
		filter := DeliveryFilter{State: state, Kind: KindTest}
		page, err := b.deliveries.List(t.Context(), account, endpoint.ID, filter, 1)
		if err != nil || len(page.Deliveries) != 0 || !page.More || page.NextBefore != ids[2] {
			t.Fatalf("the first page is %+v, %v, want none of them and %s", page, err, ids[2])
		}
		filter.Before = uuid.NullUUID{UUID: page.NextBefore, Valid: true}
		page, err = b.deliveries.List(t.Context(), account, endpoint.ID, filter, 1)
		if err != nil || len(page.Deliveries) != 1 || page.Deliveries[0].ID != ids[0] || page.More {
			t.Errorf("the second page is %+v, %v, want %s", page, err, ids[0])
		}
	}
}

func TestListSinceAnyTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	account, endpoint := b.registered(t, "https://receiver.example.com/")
	b.scoredBy(t, account)
	for since, want := range map[string]int{
		"0000-01-01T00:00:00Z": 1, "0001-01-01T00:00:00Z": 1, "1969-12-31T23:59:59Z": 1, "1970-01-01T00:00:00Z": 1, "9999-12-31T23:59:59.999999Z": 0,
	} {
		at, err := time.Parse(time.RFC3339, since)
		check.NoError(t, err)
		for _, state := range []State{"", StatePending} {
			page, err := b.deliveries.List(t.Context(), account, endpoint.ID, DeliveryFilter{State: state, Since: at}, 10)
			if err != nil || len(page.Deliveries) != want {
				t.Errorf("since %s, state %q: %+v, %v, want %d", since, state, page, err, want)
			}
		}
	}
}
