package script

import (
	"context"
	"strings"
)

const noWebhook = "00000000-0000-4000-8000-000000000000"

// webhooks registers, changes and deletes endpoints.
func webhooks() Group {
	path, ada := developer+"/webhooks", cookie("ada")
	create := func(name, body string) Exchange { return one(name, post(path, body, ada)) }
	patch := func(name, id, body string) Exchange { return one(name, send("PATCH", path+"/"+id, body, ada)) }
	show := func(name, id string) Exchange { return one(name, get(path+"/"+id, ada)) }
	remove := func(name, id string) Exchange { return one(name, request("DELETE", path+"/"+id, ada)) }
	rotate := func(name, id string) Exchange {
		return one(name, request("POST", path+"/"+id+"/rotate-secret", ada, "Content-Length: 0\r\n"))
	}
	withURL := func(name, url string) Exchange {
		return create("create-url-"+name, `{"url":"`+url+`","events":["mock_attempt.scored"]}`)
	}
	const hook, other = "<<hook>>", "<<other-hook>>"
	return group("webhooks",
		one("list-empty", get(path, ada)),
		keeping(create("create", `{"url":"https://hooks.example.com/exams?a=b","events":["mock_attempt.scored"],"description":"results é"}`), "hook", "body.id"),
		keeping(create("create-all-events", `{"url":"https://hooks.example.com:8443/","events":["mock_attempt.submitted","mock_attempt.scored","exam.content_updated"]}`), "other-hook", "body.id"),
		one("list", get(path, ada)), show("show", hook), headOf(one("show-head", request("HEAD", path+"/"+noWebhook, ada))),
		create("create-nothing", `{}`), create("create-no-events", `{"url":"https://hooks.example.com/","events":[]}`), create("create-unknown-event", `{"url":"https://hooks.example.com/","events":["exam.deleted"]}`),
		create("create-test-event", `{"url":"https://hooks.example.com/","events":["webhook.test"]}`), create("create-event-twice", `{"url":"https://hooks.example.com/","events":["mock_attempt.scored","mock_attempt.scored"]}`),
		create("create-four-events", `{"url":"https://hooks.example.com/","events":["a","b","c","d"]}`), create("create-event-number", `{"url":"https://hooks.example.com/","events":[1]}`), create("create-events-text", `{"url":"https://hooks.example.com/","events":"mock_attempt.scored"}`),
		create("create-description-too-long", `{"url":"https://hooks.example.com/","events":["mock_attempt.scored"],"description":"`+strings.Repeat("a", 501)+`"}`),
		create("create-description-nul", `{"url":"https://hooks.example.com/","events":["mock_attempt.scored"],"description":"\u0000"}`),
		withURL("http", "http://hooks.example.com/"), withURL("loopback", "https://127.0.0.1/"), withURL("private", "https://10.0.0.1/"), withURL("link-local", "https://169.254.169.254/"), withURL("ipv6-loopback", "https://[::1]/"),
		withURL("mapped", "https://[::ffff:127.0.0.1]/"), withURL("decimal", "https://2130706433/"), withURL("localhost", "https://localhost/"), withURL("user", "https://user:password@hooks.example.com/"), withURL("fragment", "https://hooks.example.com/#a"),
		withURL("no-host", "https:///x"), withURL("relative", "/x"), withURL("port-0", "https://hooks.example.com:0/"), withURL("port-too-large", "https://hooks.example.com:70000/"), withURL("spaces", "https://hooks.example.com/a b"),
		withURL("unicode", "https://höks.example.com/"), withURL("long", "https://hooks.example.com/"+strings.Repeat("a", 2048)), withURL("control", `https://hooks.example.com/\u0001`), withURL("empty", ""), withURL("public-address", "https://203.0.113.1/"),
		one("create-without-session", post(path, `{}`)),
		patch("change-description", hook, `{"description":"changed"}`), patch("change-url", hook, `{"url":"https://hooks.example.org/new"}`), patch("change-events", hook, `{"events":["mock_attempt.submitted"]}`), patch("change-nothing", hook, `{}`),
		patch("change-to-no-events", hook, `{"events":[]}`), patch("change-to-private", hook, `{"url":"https://192.168.0.1/"}`), patch("change-status-unknown", hook, `{"status":"paused"}`), patch("change-null", hook, `{"url":null,"events":null,"description":null,"status":null}`),
		patch("disable", hook, `{"status":"disabled"}`), patch("disable-again", hook, `{"status":"disabled"}`), one("test-disabled", request("POST", path+"/"+hook+"/test", ada, "Content-Length: 0\r\n")), patch("enable", hook, `{"status":"enabled"}`),
		patch("change-unknown", noWebhook, `{"description":"a"}`), patch("change-noise", "noise", `{}`), patch("change-broken", hook, `{`), patch("change-broken-of-unknown", noWebhook, `{"status":1}`),
		rotate("rotate-secret", hook), rotate("rotate-secret-again", hook), rotate("rotate-secret-unknown", noWebhook), rotate("rotate-secret-noise", "noise"),
		show("show-unknown", noWebhook), show("show-noise", "noise"), show("show-capitals", strings.ToUpper(noWebhook)), show("show-braces", "%7B"+noWebhook+"%7D"), show("show-without-dashes", strings.ReplaceAll(noWebhook, "-", "")),
		withBefore(one("show-of-another-account", get(path+"/"+hook, cookie("bob"))), signedIn("bob")), one("change-of-another-account", send("PATCH", path+"/"+hook, `{"description":"a"}`, cookie("bob"))),
		one("delete-of-another-account", request("DELETE", path+"/"+hook, cookie("bob"))), remove("delete", other), remove("delete-again", other), remove("delete-unknown", noWebhook), remove("delete-noise", "noise"), show("show-deleted", other),
		one("list-after", get(path, ada)), one("list-without-session", get(path)),
		withBefore(patch("change-managed", hook, `{"description":"a"}`), func(ctx context.Context, actor Actor) error {
			return actor.Execute(ctx, "UPDATE webhook_endpoints SET managed_by = 'cluster/exams/results' WHERE url = 'https://hooks.example.org/new'")
		}),
		show("show-managed", hook), remove("delete-managed", hook), rotate("rotate-secret-managed", hook), one("test-managed", request("POST", path+"/"+hook+"/test", ada, "Content-Length: 0\r\n")),
	)
}

// deliveries makes deliveries, which stay pending because no worker runs, and cancels, repeats and recovers them.
func deliveries() Group {
	bob, hook := cookie("bob"), developer+"/webhooks/<<bob-hook>>"
	list := func(name, query string) Exchange { return one(name, get(hook+"/deliveries"+query, bob)) }
	call := func(name, target string) Exchange {
		return one(name, request("POST", target, bob, "Content-Length: 0\r\n"))
	}
	recovery := func(name, body string) Exchange { return one(name, post(hook+"/recover", body, bob)) }
	// The second webhook has one delivery: two that are recovered together come in any order.
	second := developer + "/webhooks/<<second-hook>>"
	listSecond := func(name, query string) Exchange { return one(name, get(second+"/deliveries"+query, bob)) }
	recoverySecond := func(name string) Exchange { return one(name, post(second+"/recover", `{"since":"<<since>>"}`, bob)) }
	none := developer + "/webhooks/" + noWebhook
	return group("deliveries",
		withBefore(keeping(one("create-webhook", post(developer+"/webhooks", `{"url":"https://hooks.example.net/","events":["mock_attempt.scored"]}`, bob)), "bob-hook", "body.id"), signedIn("bob")),
		keeping(one("create-second-webhook", post(developer+"/webhooks", `{"url":"https://hooks.example.net/second","events":["mock_attempt.scored"]}`, bob)), "second-hook", "body.id"),
		list("empty", ""), keeping(one("create-key", post(developer+"/keys", `{"name":"scores"}`, bob)), "bob-key", "body.key"),
		openAs("open", "delivered", as("bob-key"), `{"paper_id":"record-geo-2023","question_limit":1}`),
		one("submit", post(submit, `{"attempt_id":"<<delivered>>","answers":{"1":"A"}}`, as("bob-key"))),
		keeping(list("after-submit", ""), "delivery", "body.deliveries.0.id"), one("show", get(hook+"/deliveries/<<delivery>>", bob)),
		keeping(call("test", hook+"/test"), "test-delivery", "body.delivery_id"), one("show-test", get(hook+"/deliveries/<<test-delivery>>", bob)),
		call("redeliver", hook+"/deliveries/<<delivery>>/redeliver"), list("all", ""), list("limit", "?limit=1"), list("before", "?before=<<test-delivery>>"), list("before-last", "?before=<<delivery>>&limit=5"),
		list("before-unknown", "?before="+noWebhook), list("before-noise", "?before=x"), list("limit-zero", "?limit=0"), list("limit-too-large", "?limit=101"), list("several-wrong", "?limit=x&before=y"),
		recoverySecond("recover-nothing"), one("disable", send("PATCH", second, `{"status":"disabled"}`, bob)), keeping(listSecond("cancelled", ""), "cancelled", "body.deliveries.0.id"), call("redeliver-disabled", second+"/deliveries/<<cancelled>>/redeliver"),
		recoverySecond("recover-disabled"), one("enable", send("PATCH", second, `{"status":"enabled"}`, bob)), recoverySecond("recover"), recoverySecond("recover-again"), listSecond("recovered", ""),
		recovery("recover-future", `{"since":"2999-01-01T00:00:00Z"}`), recovery("recover-long-ago", `{"since":"2001-01-01T00:00:00Z"}`), recovery("recover-no-time", `{"since":"yesterday"}`), recovery("recover-empty", `{}`), recovery("recover-null", `{"since":null}`),
		call("recover-without-body", hook+"/recover"), one("recover-unknown", post(none+"/recover", `{"since":"<<since>>"}`, bob)), one("recover-broken-of-unknown", post(none+"/recover", `{`, bob)),
		call("test-unknown", none+"/test"), call("test-noise", developer+"/webhooks/noise/test"), one("test-with-body", post(none+"/test", `{"a":1}`, bob)), one("list-unknown", get(none+"/deliveries", bob)),
		one("show-unknown", get(hook+"/deliveries/"+noWebhook, bob)), one("show-noise", get(hook+"/deliveries/noise", bob)), one("show-of-unknown-webhook", get(none+"/deliveries/<<delivery>>", bob)), call("redeliver-unknown", hook+"/deliveries/"+noWebhook+"/redeliver"),
		call("redeliver-noise", hook+"/deliveries/noise/redeliver"), call("redeliver-of-unknown-webhook", none+"/deliveries/<<delivery>>/redeliver"),
		one("show-of-another-account", get(hook+"/deliveries/<<delivery>>", cookie("ada"))), one("list-of-another-account", get(hook+"/deliveries", cookie("ada"))), one("test-of-another-account", request("POST", hook+"/test", cookie("ada"), "Content-Length: 0\r\n")),
		one("list-without-session", get(hook+"/deliveries")), one("test-without-session", request("POST", none+"/test", "Content-Length: 0\r\n")),
		one("test-cross-site", request("POST", none+"/test", bob, "Origin: https://elsewhere\r\n", "Content-Length: 0\r\n")),
		one("delete-webhook", request("DELETE", hook, bob)), list("of-deleted", ""),
	)
}
