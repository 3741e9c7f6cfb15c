package script

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// methods asks each path for methods that it has, and that it has not.
func methods() Group {
	key := as("catalog")
	var list []Exchange
	for name, target := range map[string]string{
		"list": "/v1/exam-prep/list", "overview": geo + "/overview", "papers": geo + "/mock-exams", "history": geo + "/mock-exams/history", "open": open,
		"session": developer + "/session", "keys": developer + "/keys", "key": developer + "/keys/service_00000000", "sign-in": developer + "/sign-in",
		"webhooks": developer + "/webhooks", "webhook": developer + "/webhooks/00000000-0000-4000-8000-000000000000", "usage": developer + "/usage",
		"unknown": "/v1/unknown", "unknown-exam-path": geo + "/unknown", "root": "/",
	} {
		list = append(list,
			one(name+"-options", request("OPTIONS", target, key)), one(name+"-options-without-key", request("OPTIONS", target)),
			one(name+"-delete", request("DELETE", target, key)), one(name+"-put", request("PUT", target, key, "Content-Length: 0\r\n")),
			one(name+"-post", request("POST", target, key, "Content-Length: 0\r\n")), headOf(one(name+"-head", request("HEAD", target, key))),
			one(name+"-patch-without-key", request("PATCH", target, "Content-Length: 2\r\n")+"{}"),
		)
	}
	slices.SortFunc(list, func(a, b Exchange) int { return strings.Compare(a.Name, b.Name) })
	return group("methods", list...)
}

// access sends every kind of credential.
func access() Group {
	target := "/v1/exam-prep/list"
	valid := "<<fresh>>"
	lines := map[string]string{
		"none": "", "empty": "Authorization: \r\n", "scheme-only": "Authorization: Bearer\r\n", "scheme-and-space": "Authorization: Bearer \r\n",
		"basic": "Authorization: Basic YTpi\r\n", "raw-key": "Authorization: " + valid + crlf, "short": "Authorization: Bearer service_1234\r\n",
		"bad-checksum": "Authorization: Bearer service_000000000000000000000000000000000000000000000000\r\n",
		"unknown":      "Authorization: Bearer service_00000000000000000000000000000000000000005a7e5fa3\r\n",
		"long":         "Authorization: Bearer service_" + strings.Repeat("0", 200) + crlf, "capitals": "Authorization: BEARER " + valid + crlf,
		"small-letters": "authorization: bearer " + valid + crlf, "two-spaces": "Authorization: Bearer  " + valid + crlf, "tab": "Authorization: Bearer\t" + valid + crlf,
		"trailing-space": "Authorization: Bearer " + valid + " \r\n", "trailing-text": "Authorization: Bearer " + valid + " x\r\n",
		"quoted": "Authorization: Bearer \"" + valid + "\"\r\n", "revoked": as("revoked"), "beyond-ascii": "Authorization: Bearer \xff\xfe\r\n",
		"in-query-is-no-credential": "X: y\r\n", "cookie-is-no-credential": "Cookie: Authorization=" + valid + crlf, "other-header": "X-Api-Key: " + valid + crlf,
	}
	var list []Exchange
	for _, name := range sortedKeys(lines) {
		address := target
		if strings.HasPrefix(name, "in-query") {
			address += "?access_token=" + valid
		}
		list = append(list, one(name, get(address, lines[name])))
	}
	list = append(list,
		one("two-lines-good-first", get(target, fresh, "Authorization: Bearer x\r\n")), one("two-lines-bad-first", get(target, "Authorization: Bearer x\r\n", fresh)),
		one("key-in-capitals", get(target, "Authorization: Bearer SERVICE_00000000000000000000000000000000000000005A7E5FA3\r\n")),
		one("fresh", get(target, fresh)), one("post-none", post(open, `{}`)), one("unknown-path-none", get("/v1/exam-prep/nothing/nowhere")),
		one("unknown-path-elsewhere-none", get("/nowhere")), one("history-revoked", get(geo+"/mock-exams/history", as("revoked"))),
		headOf(one("head-none", request("HEAD", target))), one("session-route-with-key", get(developer+"/session", fresh)),
	)
	for name, id := range map[string]string{
		"request-id": "mine-1._Z", "request-id-longest": strings.Repeat("a", 128), "request-id-too-long": strings.Repeat("a", 129), "request-id-empty": "",
		"request-id-space": "a b", "request-id-slash": "a/b", "request-id-beyond-ascii": "\xc3\xa9", "request-id-quotes": `"a"`,
	} {
		list = append(list, one(name, get(target, fresh, "X-Request-Id: "+id+crlf)), one(name+"-refused", get(target, "X-Request-Id: "+id+crlf)))
	}
	list = append(list, one("request-id-twice", get(target, fresh, "X-Request-Id: a\r\nX-Request-Id: b\r\n")))
	slices.SortFunc(list, func(a, b Exchange) int { return strings.Compare(a.Name, b.Name) })
	return group("access", list...)
}

// rates empties buckets, and comes from trusted proxies.
func rates() Group {
	const list = "/v1/exam-prep/list"
	proxies := 0
	through := func(name, forwarded string, lines ...string) Exchange {
		e := one(name, get(list, append(lines, "X-Forwarded-For: "+forwarded+crlf)...))
		proxies++ // a proxy each: one that forwards nothing readable is charged itself
		e.Source = "127.200.0." + strconv.Itoa(proxies)
		return e
	}
	emptied := one("address-emptied", strings.Repeat(get("/v1/exam-prep/list"), 400))
	emptied.Responses, emptied.First = 400, 429
	return group("rates",
		one("tiny-first", get(list, as("tiny"))), one("tiny-second", get(geo+"/overview", as("tiny"))), one("tiny-limited", get(list, as("tiny"))),
		one("tiny-limited-again", get("/v1/exam-prep/nothing/overview", as("tiny"))), one("tiny-limited-unknown-path", get(geo+"/nowhere", as("tiny"))),
		one("tiny-limited-post", post(open, `{"paper_id":"record-geo-2024"}`, as("tiny"))), headOf(one("tiny-limited-head", request("HEAD", list, as("tiny")))),
		one("tiny-limited-open-route", digestless("/v1/openapi.json", as("tiny"))),
		one("tiny-body-first", post(questions, `{"paper_id":"record-geo-2024","question_limit":1}`, as("tiny-body"))), one("tiny-body-invalid-costs", post(open, `{`, as("tiny-body"))),
		one("tiny-body-limited", post(open, `{"paper_id":"record-geo-2024"}`, as("tiny-body"))),
		one("burst", get(list, as("burst"))), one("default", get(list, fresh)), one("address", get("/nowhere")), emptied,
		through("forwarded", "203.0.113.1"), through("forwarded-list", "203.0.113.99, 203.0.113.2"), through("forwarded-through-two", "203.0.113.3, 127.200.0.99"),
		through("forwarded-ipv6", "2001:db8::1"), through("forwarded-with-port", "203.0.113.4:80"), through("forwarded-brackets", "[2001:db8:1::1]:443"),
		through("forwarded-noise", "noise"), through("forwarded-empty", ""), through("forwarded-with-key", "203.0.113.5", fresh),
		one("untrusted-forwarded", get(list, "X-Forwarded-For: 203.0.113.1\r\n")),
		withBefore(Exchange{
			Name: "one-connection-too-many", Send: []string{""}, Unprobed: true, Source: "127.150.0.1",
		}, func(ctx context.Context, actor Actor) error { return actor.Hold(ctx, "127.150.0.1", 4) }),
	)
}

func digestless(target string, lines ...string) string {
	return get(target, append(lines, "If-None-Match: *\r\n")...)
}

func withBefore(e Exchange, step Step) Exchange {
	e.Before = step
	return e
}
