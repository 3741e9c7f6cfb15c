package openapitest_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"examprep.dev/api/openapi/openapitest"
	"examprep.dev/server/testkit/check"
)

const document = `
openapi: 3.1.0
info: {title: Test, version: 1.0.0}
servers: [{url: /v1}]
paths:
  /things/{id}:
    get:
      operationId: getThing
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: size, in: query, schema: {type: integer, minimum: 2, maximum: 5}}
      responses:
        "200":
          description: A thing.
          headers:
            x-request-id: {$ref: "#/components/headers/RequestID"}
            RateLimit-Limit: {required: true, schema: {type: integer, minimum: 1}}
            ETag: {schema: {type: string, pattern: '^"'}}
          content: {application/json: {schema: {$ref: "#/components/schemas/Thing"}}}
        "304":
          description: Unchanged.
          headers: {x-request-id: {$ref: "#/components/headers/RequestID"}}
        "404": {$ref: "#/components/responses/Refused"}
    delete:
      operationId: deleteThing
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      responses:
        "204":
          description: Gone.
          headers: {x-request-id: {$ref: "#/components/headers/RequestID"}}
    put:
      operationId: putThing
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [name]
              properties:
                name: {type: string, minLength: 2, maxLength: 4}
                kinds: {type: array, minItems: 1, maxItems: 2, uniqueItems: true, items: {type: string, enum: [a, b]}}
                parts: {type: object, additionalProperties: {type: string, maxLength: 3}}
      responses:
        "204":
          description: Taken.
          headers: {x-request-id: {$ref: "#/components/headers/RequestID"}}
  /things/all:
    get:
      operationId: listThings
      responses:
        "200":
          description: All of them.
          headers: {x-request-id: {$ref: "#/components/headers/RequestID"}}
          content:
            application/json:
              schema: {type: object, required: [things], properties: {things: {type: array, items: {$ref: "#/components/schemas/Thing"}}}}
webhooks:
  thing.made:
    post:
      operationId: thingMade
      parameters: [{name: Signature, in: header, required: true, schema: {type: string, pattern: "^t="}}]
      requestBody:
        required: true
        content:
          application/json:
            schema: {type: object, required: [event], properties: {event: {const: thing.made}}}
      responses: {"200": {description: Taken.}}
components:
  headers:
    RequestID: {required: true, schema: {type: string, minLength: 1}}
  responses:
    Refused:
      description: No.
      headers: {x-request-id: {$ref: "#/components/headers/RequestID"}}
      content: {application/json: {schema: {$ref: "#/components/schemas/Error"}}}
  schemas:
    Error: {type: object, required: [error], properties: {error: {type: string}}}
    Named: {type: object, required: [name], properties: {name: {type: string}}}
    Thing:
      allOf:
        - $ref: "#/components/schemas/Named"
        - type: object
          properties:
            at: {type: string, format: date-time}
            size: {type: [integer, "null"]}
            free: {type: object, additionalProperties: true}
            part: {$ref: "#/components/schemas/Named"}
`

func load(t *testing.T, source string) *openapitest.Document {
	t.Helper()
	d, err := openapitest.Load([]byte(source))
	check.NoError(t, err)
	return d
}

// headers are those of a good answer, changed by pairs of name and value; an empty value takes one away.
func headers(changes ...string) http.Header {
	header := http.Header{
		"Content-Type": {"application/json"}, "X-Request-Id": {"r"}, "Ratelimit-Limit": {"120"}, "Etag": {`"e"`},
	}
	for i := 0; i < len(changes); i += 2 {
		header.Del(changes[i])
		if changes[i+1] != "" {
			header.Set(changes[i], changes[i+1])
		}
	}
	return header
}

func TestAnswersAreCheckedByTheirOperation(t *testing.T) {
	d := load(t, document)
	only := func(more ...string) http.Header {
		return headers(append([]string{"RateLimit-Limit", "", "ETag", ""}, more...)...)
	}
	const full = `{"name":"a","at":"2026-01-02T03:04:05Z","size":null,"free":{"x":1},"part":{"name":"b"}}`
	for _, c := range []struct {
		name, method, target string
		status               int
		header               http.Header
		body                 string
		pair, fault          string // fault is part of the error; "" for none
	}{
		{"right", "GET", "/v1/things/1?x=y", 200, headers(), full, "getThing 200", ""},
		{"the concrete path first", "GET", "/v1/things/all", 200, only(), `{"things":[` + full + `]}`, "listThings 200", ""},
		{"HEAD", "HEAD", "/v1/things/1", 200, headers(), "", "getThing 200", ""},
		{"HEAD with a body", "HEAD", "/v1/things/1", 200, headers(), full, "getThing 200", "a body of"},
		{"not modified", "GET", "/v1/things/1", 304, only("Content-Type", ""), "", "getThing 304", ""},
		{"nothing to say", "DELETE", "/v1/things/1", 204, only("Content-Type", ""), "", "deleteThing 204", ""},
		{"something to say", "DELETE", "/v1/things/1", 204, only(), "{}", "deleteThing 204", "a body of"},
		{"a status nobody knows", "GET", "/v1/things/1", 500, only(), `{"error":"x"}`, "getThing 500", "not documented"},
		{"no header", "GET", "/v1/things/1", 200, headers("x-request-id", ""), full, "getThing 200", "x-request-id is missing"},
		{"an optional header", "GET", "/v1/things/1", 200, headers("ETag", ""), full, "getThing 200", ""},
		{"a bad header", "GET", "/v1/things/1", 200, headers("ETag", "e"), full, "getThing 200", "ETag"},
		{"a number too small", "GET", "/v1/things/1", 200, headers("RateLimit-Limit", "0"), full, "getThing 200", "RateLimit-Limit"},
		{"a number in words", "GET", "/v1/things/1", 200, headers("RateLimit-Limit", "ten"), full, "getThing 200", "RateLimit-Limit"},
		{"an unknown header", "GET", "/v1/things/1", 200, headers("X-Debug", "1"), full, "getThing 200", "X-Debug is not documented"},
		{"another media type", "GET", "/v1/things/1", 200, headers("Content-Type", "text/html"), full, "getThing 200", "text/html"},
		{"no JSON", "GET", "/v1/things/1", 200, headers(), `{`, "getThing 200", "not JSON"},
		{"a field missing", "GET", "/v1/things/1", 200, headers(), `{}`, "getThing 200", "name"},
		{"a field unknown", "GET", "/v1/things/1", 200, headers(), `{"name":"a","more":1}`, "getThing 200", "more"},
		{"a field unknown within", "GET", "/v1/things/1", 200, headers(), `{"name":"a","part":{"name":"b","more":1}}`, "getThing 200", "more"},
		{"a field unknown in an element", "GET", "/v1/things/all", 200, only(), `{"things":[{"name":"a","more":1}]}`, "listThings 200", "more"},
		{"a bad format", "GET", "/v1/things/1", 200, headers(), `{"name":"a","at":"today"}`, "getThing 200", "date-time"},
		{"a wrong type", "GET", "/v1/things/1", 200, headers(), `{"name":"a","size":"1"}`, "getThing 200", "size"},

		{"an unknown path", "GET", "/nowhere", 404, only(), `{"error":"not_found"}`, " 0", ""},
		{"an unreadable request", "", "", 400, only(), `{"error":"bad_request"}`, " 0", ""},
		{"an unknown request", "", "", 200, headers(), full, " 0", ""},
		{"an unknown request for OPTIONS", "", "", 204, only("Allow", "GET", "Content-Type", ""), "", " 0", ""},
		{"an answer to no request", "", "", 200, headers(), `{}`, " 0", "name"},
		{"a refusal without its header", "", "", 400, only("x-request-id", ""), `{"error":"bad_request"}`, " 0", "X-Request-Id"},
		{"a refusal in text", "", "", 400, only("Content-Type", "text/plain"), `{"error":"bad_request"}`, " 0", "text/plain"},
		{"a refusal that is no Error", "", "", 400, only(), `{"message":"bad_request"}`, " 0", "error"},
		{"a success of nothing", "GET", "/nowhere", 200, only(), `{}`, " 0", "no such operation"},
		{"another method", "PATCH", "/v1/things/1", 405, only("Allow", "GET"), `{"error":"method_not_allowed"}`, " 0", ""},
		{"another method, without Allow", "PATCH", "/v1/things/1", 405, only(), `{"error":"method_not_allowed"}`, " 0", "Allow"},
		{"OPTIONS", "OPTIONS", "/v1/things/1", 204, only("Allow", "GET", "Content-Type", ""), "", " 0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pair, err := d.Check(openapitest.Exchange{Method: c.method, Target: c.target, Status: c.status, Header: c.header, Body: []byte(c.body)})
			if pair.String() != c.pair {
				t.Errorf("it is the answer of %s, want %s", pair, c.pair)
			}
			if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("fault %v, want %q", err, c.fault)
			}
		})
	}
}

func TestDocumentsThatAreWrongAreRefused(t *testing.T) {
	for name, change := range map[string][2]string{
		"an older version":    {"openapi: 3.1.0", "openapi: 3.0.3"},
		"a dangling $ref":     {`"#/components/schemas/Named"}`, `"#/components/schemas/Nobody"}`},
		"no such type":        {"error: {type: string}", "error: {type: text}"},
		"a broken pattern":    {`pattern: '^"'`, `pattern: '('`},
		"a key twice":         {"    Error:", "    Error: {type: string}\n    Error:"},
		"a parameter missing": {"      parameters: [{name: id, in: path, required: true, schema: {type: string}}]\n      responses:\n        \"204\"", "      responses:\n        \"204\""},
	} {
		if source := strings.Replace(document, change[0], change[1], 1); source == document {
			t.Errorf("%s: nothing was changed", name)
		} else if _, err := openapitest.Load([]byte(source)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestWebhooksAreChecked(t *testing.T) {
	d := load(t, document)
	signed := http.Header{"Content-Type": {"application/json"}, "Signature": {"t=1"}}
	if err := d.CheckWebhook("thing.made", signed, []byte(`{"event":"thing.made"}`)); err != nil {
		t.Error(err)
	}
	if got := d.Webhooks(); !slices.Equal(got, []string{"thing.made"}) {
		t.Errorf("webhooks = %v", got)
	}
	for name, c := range map[string]struct {
		webhook, signature, body string
	}{
		"another kind":    {"thing.made", "t=1", `{"event":"thing.lost"}`},
		"a field unknown": {"thing.made", "t=1", `{"event":"thing.made","more":1}`},
		"a bad header":    {"thing.made", "v=1", `{"event":"thing.made"}`},
		"an unknown one":  {"thing.lost", "t=1", `{"event":"thing.made"}`},
	} {
		header := signed.Clone()
		header.Set("Signature", c.signature)
		if d.CheckWebhook(c.webhook, header, []byte(c.body)) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	delete(signed, "Signature")
	if d.CheckWebhook("thing.made", signed, []byte(`{"event":"thing.made"}`)) == nil {
		t.Error("a delivery without its required header is accepted")
	}
}

func TestWhatNoAnswerProvesIsTold(t *testing.T) {
	r := openapitest.Recorder{Document: load(t, document)}
	check := func(body string) {
		t.Helper()
		if err := r.Check(openapitest.Exchange{Method: "GET", Target: "/v1/things/1", Status: 200, Header: headers(), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	check(`{"name":"a"}`)
	var missing []string
	for _, pair := range r.Missing() {
		missing = append(missing, pair.String())
	}
	if want := []string{"listThings 200", "getThing 304", "getThing 404", "putThing 204", "deleteThing 204"}; !slices.Equal(missing, want) {
		t.Errorf("missing = %v, want %v", missing, want)
	}
	const properties = "getThing 200: /components/schemas/Thing/allOf/1/properties/"
	want := []string{properties + "at of another type", properties + "free of another type", properties + "part of another type", properties + "size of another type"}
	if got := r.Survivors(); !slices.Equal(got, want) {
		t.Errorf("survivors = %q, want %q", got, want)
	}
	check(`{"name":"a","at":"2026-01-02T03:04:05Z","size":1,"free":{},"part":{"name":"b"}}`)
	if got := r.Survivors(); len(got) > 0 {
		t.Errorf("survivors = %q although everything was answered", got)
	}
}

func TestFieldsAreTriedAtTheirLimits(t *testing.T) {
	d := load(t, document)
	trials := map[string]map[string]bool{}
	for _, o := range d.Operations() {
		for _, field := range d.Fields(o) {
			tried, err := d.Trials(field)
			check.NoError(t, err)
			name := fmt.Sprintf("%s %s in body %v, required %v", o.ID, field.Name, field.InBody, field.Required)
			trials[name] = map[string]bool{}
			for _, trial := range tried {
				trials[name][trial.Value] = trial.Allowed
			}
		}
	}
	if len(trials) != 4 {
		t.Errorf("fields = %v", slices.Collect(maps.Keys(trials)))
	}
	for field, want := range map[string]map[string]bool{
		"getThing size in body false, required false": {"1": false, "2": true, "5": true, "6": false, "x": false, "1.5": false, "": false},
		"putThing name in body true, required true": {
			`"a"`: false, `"aa"`: true, `"😀😀😀😀"`: true, `"😀😀😀😀😀"`: false, `"aaaaa"`: false, `7`: false, `null`: false, `[null]`: false,
		},
		"putThing kinds in body true, required false": {`[]`: false, `["a"]`: true, `["a","b"]`: true, `["a","a"]`: false, `["x"]`: false, `"x"`: false, `[null]`: false},
		"putThing parts in body true, required false": {`{}`: true, `{"2:2":"aaa"}`: true, `{"2:2":"aaaa"}`: false, `{"2:2":7}`: false, `[]`: false},
	} {
		for value, allowed := range want {
			if got, tried := trials[field][value]; !tried || got != allowed {
				t.Errorf("%s: %s is tried: %v, allowed: %v, want %v", field, value, tried, got, allowed)
			}
		}
	}
}
