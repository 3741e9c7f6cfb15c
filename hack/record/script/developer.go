package script

import (
	"context"
	"fmt"
	"strings"
)

const (
	begin    = developer + "/sign-in"
	callback = developer + "/callback"
	signing  = "Cookie: __Host-examprep_sign_in="
)

// signIn signs ada in, and sends callbacks that must be refused.
func signIn() Group {
	start := func(name, person string) Exchange {
		return keeping(one(name, get(begin)), person+"-location", "header.Location", person+"-signing", "cookie.__Host-examprep_sign_in")
	}
	approve := func(e Exchange, person, subject string) Exchange {
		return withBefore(e, func(ctx context.Context, actor Actor) error {
			return actor.Approve(ctx, person+"-location", subject, person+"-callback")
		})
	}
	back := func(name, lines string) Exchange { return one(name, get("<<ada-callback>>", lines)) }
	return group("sign-in",
		start("begin", "ada"), headOf(one("begin-head", request("HEAD", begin))), one("begin-with-query", get(begin+"?x=%zz")),
		approve(back("callback-without-cookie", ""), "ada", "ada"), back("callback-with-noise", signing+"noise\r\n"),
		keeping(back("callback", signing+"<<ada-signing>>\r\n"), "ada", "cookie.__Host-examprep_session"),
		back("callback-again", signing+"<<ada-signing>>\r\n"),
		start("begin-second", "second"), one("callback-wrong-state", get(callback+"?state=x&code=y", signing+"<<second-signing>>\r\n")),
		one("callback-no-parameters", get(callback, signing+"<<second-signing>>\r\n")), one("callback-nothing", get(callback)),
		one("callback-error", get(callback+"?error=access_denied", signing+"<<second-signing>>\r\n")), one("callback-twice-state", get(callback+"?state=a&state=b&code=c")),
		one("callback-long-state", get(callback+"?code=c&state="+strings.Repeat("a", 129))), one("callback-long-code", get(callback+"?state=a&code="+strings.Repeat("a", 4097))),
		one("callback-broken-encoding", get(callback+"?state=%zz&code=%ff")),
		one("callback-nul", get(callback+"?state=%00&code=a")), one("callback-post", post(callback, `{}`)),
		one("session", get(developer+"/session", cookie("ada"))), headOf(one("session-head", request("HEAD", developer+"/session", cookie("ada")))),
		one("session-none", get(developer+"/session")), one("session-noise", get(developer+"/session", "Cookie: __Host-examprep_session=noise\r\n")),
		one("session-empty", get(developer+"/session", "Cookie: __Host-examprep_session=\r\n")),
		one("session-among-cookies", get(developer+"/session", "Cookie: a=b; __Host-examprep_session=<<ada>>; c=d\r\n")),
		one("session-in-second-line", get(developer+"/session", "Cookie: a=b\r\n", cookie("ada"))),
		one("session-twice", get(developer+"/session", "Cookie: __Host-examprep_session=noise; __Host-examprep_session=<<ada>>\r\n")),
		one("session-quoted", get(developer+"/session", "Cookie: __Host-examprep_session=\"<<ada>>\"\r\n")),
		one("session-other-name", get(developer+"/session", "Cookie: examprep_session=<<ada>>\r\n")),
	)
}

func signedIn(person string) Step {
	return func(ctx context.Context, actor Actor) error { return actor.SignIn(ctx, person) }
}

// session ends sessions.
func session() Group {
	path := developer + "/session"
	return group("session",
		withBefore(one("bob", get(path, cookie("bob"))), signedIn("bob")),
		one("delete-wrong-parameter", request("DELETE", path+"?everywhere=yes", cookie("bob"))), one("delete-parameter-twice", request("DELETE", path+"?everywhere=true&everywhere=true", cookie("bob"))),
		one("delete-cross-site", request("DELETE", path, cookie("bob"), "Sec-Fetch-Site: cross-site\r\n")), one("delete", request("DELETE", path, cookie("bob"))),
		one("ended", get(path, cookie("bob"))), one("delete-again", request("DELETE", path, cookie("bob"))), one("delete-without", request("DELETE", path)),
		withBefore(one("again", get(path, cookie("bob"))), signedIn("bob")), one("delete-everywhere-false", request("DELETE", path+"?everywhere=false", cookie("bob"))),
		withBefore(one("delete-everywhere", request("DELETE", path+"?everywhere=true", cookie("bob"))), signedIn("bob")), one("ended-everywhere", get(path, cookie("bob"))),
	)
}

// origins sends state-changing calls from pages of other origins.
func origins() Group {
	path := developer + "/keys"
	lines := map[string]string{
		"none": "", "same-origin": "Sec-Fetch-Site: same-origin\r\n", "none-by-user": "Sec-Fetch-Site: none\r\n", "same-site": "Sec-Fetch-Site: same-site\r\n",
		"cross-site": "Sec-Fetch-Site: cross-site\r\n", "site-unknown": "Sec-Fetch-Site: elsewhere\r\n", "site-empty": "Sec-Fetch-Site: \r\n",
		"site-same-origin-other": "Sec-Fetch-Site: same-origin\r\nOrigin: https://elsewhere\r\n", "origin-https": "Origin: https://record\r\n",
		"origin-http": "Origin: http://record\r\n", "origin-other": "Origin: https://elsewhere\r\n", "origin-null": "Origin: null\r\n", "origin-empty": "Origin: \r\n",
		"origin-other-port": "Origin: https://record:8443\r\n", "origin-subdomain": "Origin: https://a.record\r\n", "origin-capitals": "Origin: https://RECORD\r\n",
		"origin-noise": "Origin: ://\r\n", "origin-without-scheme": "Origin: record\r\n", "referer-only": "Referer: https://elsewhere/x\r\n",
	}
	var list []Exchange
	for _, name := range sortedKeys(lines) {
		list = append(list, one(name, post(path, `{"name":1}`, cookie("ada"), lines[name])))
	}
	list = append(list, one("get-cross-site", get(path+"?limit=1", cookie("ada"), "Sec-Fetch-Site: cross-site\r\n")), one("cross-site-without-session", post(path, `{"name":1}`, "Sec-Fetch-Site: cross-site\r\n")),
		one("patch-cross-site", send("PATCH", developer+"/webhooks/00000000-0000-4000-8000-000000000000", `{}`, cookie("ada"), "Sec-Fetch-Site: cross-site\r\n")),
		one("loopback-http", strings.Replace(post(path, `{"name":1}`, cookie("ada"), "Origin: http://127.0.0.1:1\r\n"), host, "Host: 127.0.0.1:1\r\n", 1)),
		one("localhost-http", strings.Replace(post(path, `{"name":1}`, cookie("ada"), "Origin: http://localhost:1\r\n"), host, "Host: localhost:1\r\n", 1)))
	return group("origins", list...)
}

// keys creates, lists, rotates and revokes keys.
func keys() Group {
	path, ada := developer+"/keys", cookie("ada")
	create := func(name, body string) Exchange { return one(name, post(path, body, ada)) }
	list := func(name, query string) Exchange { return one(name, get(path+query, ada)) }
	rotate := func(name, prefix, body string) Exchange {
		return one(name, post(path+"/"+prefix+"/rotate", body, ada))
	}
	revoke := func(name, prefix string) Exchange { return one(name, request("DELETE", path+"/"+prefix, ada)) }
	use := func(name, key string) Exchange { return one(name, get("/v1/exam-prep/record-none/overview", as(key))) }
	const unused = "service_00000000"
	return group("keys",
		list("list-empty", ""), keeping(create("create", `{"name":"first"}`), "first", "body.key", "first-prefix", "body.key_prefix"), use("use", "first"),
		keeping(create("create-expiring", `{"name":"ünï \"quoted\" <b>","expires_at":"2090-01-02T03:04:05.678+02:00"}`), "expiring-prefix", "body.key_prefix"),
		keeping(create("create-third", `{"name":"third","x":1}`), "third", "body.key", "third-prefix", "body.key_prefix"),
		create("create-nothing", `{}`), create("create-name-empty", `{"name":""}`), create("create-name-longest", `{"name":"`+strings.Repeat("é", 200)+`"}`), create("create-name-too-long", `{"name":"`+strings.Repeat("a", 201)+`"}`),
		create("create-name-nul", `{"name":"a\u0000"}`), create("create-name-number", `{"name":1}`), create("create-expired", `{"name":"a","expires_at":"2001-01-01T00:00:00Z"}`),
		create("create-expiry-day", `{"name":"a","expires_at":"2090-01-01"}`), create("create-expiry-number", `{"name":"a","expires_at":1}`), create("create-expiry-comma", `{"name":"a","expires_at":"2090-01-01T00:00:00,5Z"}`),
		create("create-expiry-one-digit", `{"name":"a","expires_at":"2090-01-01T0:00:00Z"}`), create("create-expiry-offset", `{"name":"a","expires_at":"2090-01-01T00:00:00+24:00"}`),
		create("create-expiry-far", `{"name":"a","expires_at":"9999-12-31T23:59:59Z"}`), create("create-expiry-null", `{"name":"a","expires_at":null}`), create("create-broken", `{"name":`),
		create("create-inherits", `{"name":"heir","inherit_from":"<<first-prefix>>"}`),
		one("create-without-session", post(path, `{"name":"a"}`)), one("create-wrong-type", strings.Replace(post(path, `{"name":"a"}`, ada), "application/json", "text/plain", 1)),
		one("create-with-key", post(path, `{"name":"a"}`, fresh)), list("list-limit", "?limit=2"), list("list-before", "?limit=2&before=<<third-prefix>>"), list("list-before-first", "?before=<<first-prefix>>"),
		list("list-before-unknown", "?before="+unused), list("list-before-noise", "?before=x"), list("list-limit-zero", "?limit=0"), list("list-limit-too-large", "?limit=101"), list("list-limit-twice", "?limit=1&limit=1"),
		one("list-without-session", get(path)), headOf(one("list-head", request("HEAD", path+"?limit=1", ada))),
		keeping(rotate("rotate-overlap", "<<first-prefix>>", `{"overlap_seconds":3600}`), "first-successor", "body.key", "first-successor-prefix", "body.key_prefix"),
		use("use-rotated-in-overlap", "first"), use("use-successor", "first-successor"), rotate("rotate-again", "<<first-prefix>>", `{"overlap_seconds":1}`),
		keeping(one("rotate-without-body", request("POST", path+"/<<third-prefix>>/rotate", ada, "Content-Length: 0\r\n")), "third-successor", "body.key"), use("use-rotated-at-once", "third"), use("use-third-successor", "third-successor"),
		rotate("rotate-empty-object", "<<first-successor-prefix>>", `{}`), rotate("rotate-too-long", "<<expiring-prefix>>", `{"overlap_seconds":86401}`), rotate("rotate-negative", "<<expiring-prefix>>", `{"overlap_seconds":-1}`),
		rotate("rotate-text", "<<expiring-prefix>>", `{"overlap_seconds":"1"}`), rotate("rotate-broken", "<<expiring-prefix>>", `{`), rotate("rotate-unknown", unused, `{}`), rotate("rotate-noise", "x", `{}`),
		rotate("rotate-broken-of-unknown", unused, `{`), revoke("revoke", "<<first-prefix>>"), use("use-revoked", "first"), revoke("revoke-again", "<<first-prefix>>"), rotate("rotate-revoked", "<<first-prefix>>", `{}`),
		revoke("revoke-unknown", unused), revoke("revoke-noise", "noise"), revoke("revoke-bytes", "%ff"), revoke("revoke-capitals", "SERVICE_00000000"), one("revoke-without-session", request("DELETE", path+"/"+unused)),
		one("revoke-with-body", send("DELETE", path+"/"+unused, `{}`, ada)), withBefore(one("revoke-of-another-account", request("DELETE", path+"/<<expiring-prefix>>", cookie("bob"))), signedIn("bob")),
		one("rotate-of-another-account", post(path+"/<<expiring-prefix>>/rotate", `{}`, cookie("bob"))), one("list-of-another-account", get(path, cookie("bob"))),
	)
}

// usage asks for days; the account's keys were hardly used.
func usage() Group {
	list := func(name, query string) Exchange { return one(name, get(developer+"/usage"+query, cookie("bob"))) }
	return group("usage",
		list("default", ""), list("one-day", "?from=2020-01-01&to=2020-01-01"), list("from-only-far", "?from=2001-01-01"), list("backwards", "?from=2020-01-02&to=2020-01-01"),
		list("future", "?from=2999-01-01"), list("longest", "?from=2019-12-03&to=2020-01-01"), list("too-long", "?from=2000-01-01&to=2020-01-01"), list("first-day", "?to=0001-01-01"),
		list("before-first-day", "?to=0000-12-31"), list("no-day", "?from=yesterday"), list("no-such-day", "?from=2020-02-30"), list("a-time", "?from=2020-01-01T00:00:00Z"), list("twice", "?to=2020-01-01&to=2020-01-01"),
		list("prefix-unknown", "?key_prefix=service_00000000"), list("prefix-noise", "?key_prefix=x"), list("prefix-of-another", "?key_prefix=<<expiring-prefix>>"), list("several-wrong", "?from=x&to=y&key_prefix=z"),
		one("without-session", get(developer+"/usage")), one("with-key", get(developer+"/usage", fresh)),
	)
}

// limits fills an account's webhooks.
func limits() Group {
	const mostWebhooks = 50
	fill := func(ctx context.Context, actor Actor) error {
		if err := actor.SignIn(ctx, "full"); err != nil {
			return err
		}
		for range mostWebhooks {
			status, body, err := actor.Send(ctx, post(developer+"/webhooks", `{"url":"https://hooks.example.com/x","events":["exam.content_updated"]}`, cookie("full")))
			if err != nil || status != 201 {
				return fmt.Errorf("fill an account with webhooks: %d %s %w", status, body, err)
			}
		}
		return nil
	}
	return group("limits",
		withBefore(one("one-webhook-too-many", post(developer+"/webhooks", `{"url":"https://hooks.example.com/x","events":["exam.content_updated"]}`, cookie("full"))), fill),
		one("create-key-of-default-tier", post(developer+"/keys", `{"name":"of the default tier"}`, cookie("full"))),
	)
}
