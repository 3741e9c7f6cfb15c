package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestADeveloperManagesKeys(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	if status, _, body := ada.do(http.MethodGet, "/v1/developer/session", ""); status != http.StatusOK || body["email"] != "ada@example.org" {
		t.Fatalf("session: %d %v", status, body)
	}
	status, _, issued := ada.do(http.MethodPost, "/v1/developer/keys", `{"name":"ci"}`)
	key, _ := issued["key"].(string)
	if _, valid := keys.Parse([]byte(key)); status != http.StatusCreated || !valid || issued["environment"] != "sandbox" || issued["tier"] != "default" {
		t.Fatalf("create: %d %v", status, issued)
	}
	withKey := func(key string) int {
		caller := c.open()
		caller.header.Set("Authorization", "Bearer "+key)
		status, _, _ := caller.do(http.MethodGet, "/v1/exam-prep/list", "")
		return status
	}
	check.Equal(t, withKey(key), http.StatusOK, "the new key")
	prefix, _ := issued["key_prefix"].(string)
	status, _, listed := ada.do(http.MethodGet, "/v1/developer/keys", "")
	if text, _ := json.Marshal(listed); status != http.StatusOK || !strings.Contains(string(text), prefix) || strings.Contains(string(text), key) {
		t.Errorf("list: %d %s", status, text)
	}
	bob := c.signedIn("bob")
	bob.expect(http.StatusNotFound, http.MethodDelete, "/v1/developer/keys/"+prefix, "", "another's key")
	status, _, rotated := ada.do(http.MethodPost, "/v1/developer/keys/"+prefix+"/rotate", `{"overlap_seconds":86400}`)
	successor, _ := rotated["key"].(string)
	if status != http.StatusCreated || withKey(key) != http.StatusOK || withKey(successor) != http.StatusOK {
		t.Errorf("rotate: %d, old %d, new %d", status, withKey(key), withKey(successor))
	}
	ada.expect(http.StatusNoContent, http.MethodDelete, "/v1/developer/keys/"+prefix, "", "revoke")
	check.Equal(t, withKey(key), http.StatusUnauthorized, "the revoked key")
}

func TestARotationIsNotRepeatedAndNeedsNoBody(t *testing.T) {
	t.Parallel()
	_, ada := newConsoleOfAda(t)
	rotate := func(prefix any, body string) (int, map[string]any) {
		text, _ := prefix.(string)
		status, _, answer := ada.do(http.MethodPost, "/v1/developer/keys/"+url.PathEscape(text)+"/rotate", body)
		return status, answer
	}
	_, _, first := ada.do(http.MethodPost, "/v1/developer/keys", `{"name":"ci"}`)
	status, second := rotate(first["key_prefix"], `{"overlap_seconds":60}`)
	if _, uncertain := second["old_key_revoked"]; status != http.StatusCreated || second["expires_at"] != nil || uncertain {
		t.Errorf("rotate: %d %v", status, second)
	}
	if status, answer := rotate(first["key_prefix"], `{"overlap_seconds":60}`); status != http.StatusConflict {
		t.Errorf("again: %d %v, want 409", status, answer)
	}
	status, third := rotate(second["key_prefix"], `{}`)
	if status != http.StatusCreated {
		t.Errorf("a body without the field: %d %v, want 201", status, third)
	}
	if status, answer := rotate(third["key_prefix"], ""); status != http.StatusCreated {
		t.Errorf("without a body: %d %v, want 201", status, answer)
	}
	for _, prefix := range []string{"\xff\xfe", "service_", "service_0000000G", "SERVICE_00000000"} {
		if status, answer := rotate(prefix, ""); status != http.StatusNotFound {
			t.Errorf("%q: %d %v, want 404", prefix, status, answer)
		}
	}
}

func TestKeysComeInPagesAlsoWhereTheyAreOfOneInstant(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	var want []string
	for range 7 {
		want = append(want, textOf(ada.make("/v1/developer/keys", `{"name":"k"}`), "key_prefix"))
	}
	bobs := textOf(bob.make("/v1/developer/keys", `{"name":"k"}`), "key_prefix")
	testkit.Exec(t, c.Pool, "UPDATE api_keys SET created_at = now()")
	if status, _, body := ada.do(http.MethodDelete, "/v1/developer/keys/"+want[3], ""); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	slices.Reverse(want) // their ids are UUIDv7
	for _, limit := range []int{1, 3, 7, 100} {
		var walked []string
		for query, more := fmt.Sprintf("?limit=%d", limit), true; more; {
			status, _, page := ada.do(http.MethodGet, "/v1/developer/keys"+query, "")
			listed := listOf(page, "keys")
			if status != http.StatusOK || len(listed) == 0 || len(listed) > limit {
				t.Fatalf("limit %d: %d %v", limit, status, page)
			}
			for _, key := range listed {
				walked = append(walked, textOf(key, "key_prefix"))
			}
			more, _ = page["has_more"].(bool)
			query = fmt.Sprintf("?limit=%d&before=%s", limit, walked[len(walked)-1])
		}
		check.Slices(t, walked, want, "limit %d: walked", limit)
	}
	for query, field := range map[string]string{
		"limit=1&limit=1": "limit", "limit=99999999999999999999": "limit",
		"before=" + bobs: "before", "before=service_00000000": "before", "before=": "before", "before=%ff": "before", "before=%00": "before",
	} {
		if status, _, refused := ada.do(http.MethodGet, "/v1/developer/keys?"+query, ""); status != http.StatusBadRequest || !names(refused, field) {
			t.Errorf("%s: %d %v, want %s named", query, status, refused, field)
		}
	}
}

func TestWhatIsAskedOfANewKey(t *testing.T) {
	t.Parallel()
	_, ada := newConsoleOfAda(t)
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	for name, told := range map[string]string{
		"an hour":               later.Format(time.RFC3339Nano),
		"in another zone":       later.In(time.FixedZone("", 5*3600+1800)).Format(time.RFC3339Nano),
		"finer than is kept":    later.Add(999 * time.Nanosecond).Format(time.RFC3339Nano),
		"the last of all times": "9999-12-31T23:59:59.999999999Z",
	} {
		made := ada.make("/v1/developer/keys", `{"name":"k","expires_at":"`+told+`"}`)
		want := later.Format(time.RFC3339Nano)
		if name == "the last of all times" {
			want = "9999-12-31T23:59:59.999999Z"
		}
		_, _, listed := ada.do(http.MethodGet, "/v1/developer/keys?limit=1", "")
		if kept := listOf(listed, "keys")[0]; made["expires_at"] != want || kept["expires_at"] != want || kept["created_at"] != made["created_at"] {
			t.Errorf("%s: made %v, kept %v, want %s", name, made, kept, want)
		}
	}
	ada.make("/v1/developer/keys", `{"name":"`+strings.Repeat("é", 200)+`"}`)
	if made := ada.make("/v1/developer/keys", `{"name":"k","expires_at":null,"inherit_from":null}`); made["expires_at"] != nil {
		t.Errorf("fields that are null: %v", made)
	}
	for body, field := range map[string]string{
		`{"name":"a\u0000b"}`: "name", `{"name":"a\u0007b"}`: "name",
		`{"name":"k","inherit_from":"service_00000000"}`:        "inherit_from",
		`{"name":"k","expires_at":"2020-01-01T00:00:00Z"}`:      "expires_at",
		`{"name":"k","expires_at":"2099-01-01T1:00:00Z"}`:       "expires_at",
		`{"name":"k","expires_at":"2099-01-01T01:00:00,5Z"}`:    "expires_at",
		`{"name":"k","expires_at":"2099-01-01T01:00:00+24:00"}`: "expires_at",
		`{"name":"k","expires_at":"2099-01-01 01:00:00Z"}`:      "expires_at",
		`{"name":"k","expires_at":"2099-02-29T00:00:00Z"}`:      "expires_at",
		`{"name":"k","expires_at":"9999-12-31T23:59:59-01:00"}`: "expires_at",
	} {
		if status, _, refused := ada.do(http.MethodPost, "/v1/developer/keys", body); status != http.StatusBadRequest || !names(refused, field) {
			t.Errorf("%s: %d %v, want %s named", body, status, refused, field)
		}
	}
	if status, _, refused := ada.do(http.MethodPost, "/v1/developer/keys", `{"name":"a","name":"b"}`); status != http.StatusBadRequest || refused["error"] != "invalid_json" {
		t.Errorf("a name twice: %d %v", status, refused)
	}
}

func TestANewKeyJoinsTheFamilyOfAKeyOfItsAccount(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	first := ada.make("/v1/developer/keys", `{"name":"first"}`)
	prefix := textOf(first, "key_prefix")
	heir := ada.make("/v1/developer/keys", `{"name":"heir","inherit_from":"`+prefix+`"}`)
	if status, _, body := ada.do(http.MethodDelete, "/v1/developer/keys/"+prefix, ""); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	second := ada.make("/v1/developer/keys", `{"name":"of a revoked key","inherit_from":"`+prefix+`"}`)
	alone := ada.make("/v1/developer/keys", `{"name":"alone"}`)
	var family, other int
	check.NoError(t, c.Pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE family_id = f.id), count(*) FILTER (WHERE family_id <> f.id)
		FROM api_keys, (SELECT id FROM api_keys WHERE prefix = $1) f WHERE prefix = ANY ($2)`, prefix,
		[]string{textOf(heir, "key_prefix"), textOf(second, "key_prefix"), textOf(alone, "key_prefix")}).Scan(&family, &other))
	if family != 2 || other != 1 {
		t.Errorf("%d keys joined the family, %d did not", family, other)
	}
	status, _, refused := bob.do(http.MethodPost, "/v1/developer/keys", `{"name":"k","inherit_from":"`+prefix+`"}`)
	if status != http.StatusBadRequest || refused["error"] != "validation_failed" || !names(refused, "inherit_from") {
		t.Errorf("a key of another account: %d %v", status, refused)
	}
}

func TestANewKeySeesTheAttemptsOfTheFamilyThatItJoins(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	first := ada.make(keysPath, `{"name":"first"}`)
	ask := func(key map[string]any, method, path, body string) response {
		t.Helper()
		return c.call(method, examPath+path, body, map[string]string{"Authorization": "Bearer " + textOf(key, "key")})
	}
	opened := ask(first, http.MethodPost, "/mock-exams/open", `{"paper_id":"`+testPaper+`"}`)
	attempt := textOf(opened.document(t), "attempt_id")
	if opened.status != http.StatusOK || attempt == "" {
		t.Fatalf("open: %d %s", opened.status, opened.body)
	}
	heir := ada.make(keysPath, `{"name":"heir","inherit_from":"`+textOf(first, "key_prefix")+`"}`)
	alone := ada.make(keysPath, `{"name":"alone"}`)
	if status, _, body := ada.do(http.MethodDelete, keysPath+"/"+textOf(first, "key_prefix"), ""); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	for _, key := range []struct {
		name    string
		key     map[string]any
		history []string
		status  int
	}{
		{"key of another family", alone, nil, http.StatusNotFound},
		{"heir", heir, []string{attempt}, http.StatusOK},
	} {
		var seen []string
		for _, one := range listOf(ask(key.key, http.MethodGet, "/mock-exams/history", "").document(t), "attempts") {
			seen = append(seen, textOf(one, "attempt_id"))
		}
		check.Slices(t, seen, key.history, "%s sees", key.name)
		got := ask(key.key, http.MethodPost, "/mock-exams/submit", `{"attempt_id":"`+attempt+`","answers":{"1:1":"B"}}`)
		got.expect(t, key.status, "%s submits", key.name)
	}
}
