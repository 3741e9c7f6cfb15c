package script

import (
	"context"
	"strconv"
	"strings"
	"time"
)

const (
	// longerThanRead is more than the server waits for a request.
	longerThanRead = 40 * time.Second
	// longerThanIdle is more than the server keeps an idle connection.
	longerThanIdle = 110 * time.Second
	// longerThanUsage is more than usage takes to be counted.
	longerThanUsage = 90 * time.Second
)

// pageLength is the Content-Length of pageBody, where a template holds several requests.
var pageLength = strconv.Itoa(len(pageBody))

// pipelines sends several requests at once.
func pipelines() Group {
	list := func(id string) string {
		return get("/v1/exam-prep/record-none/overview", as("pipeline"), "X-Request-Id: "+id+crlf)
	}
	page := func(id string) string {
		return post(questions, pageBody, as("pipeline"), "X-Request-Id: "+id+crlf)
	}
	several := func(name string, responses int, sent ...string) Exchange {
		return Exchange{Name: name, Send: []string{strings.Join(sent, "")}, Responses: responses}
	}
	withLength := func(text string) string { return strings.Replace(text, "<<length>>", pageLength, 1) }
	return group("pipeline",
		several("three-gets", 3, list("one"), list("two"), list("three")), several("twenty", 20, strings.Repeat(list("same"), 20)), several("posts", 2, withLength(page("one")), withLength(page("two"))),
		several("get-post-get", 3, list("one"), withLength(page("two")), list("three")), several("options-between", 3, list("one"), request("OPTIONS", open, as("pipeline")), list("three")), several("not-found-between", 3, list("one"), get("/nowhere", as("pipeline")), list("three")),
		several("unauthorized-between", 2, list("one"), get("/v1/exam-prep/list", "X-Request-Id: two\r\n")), several("broken-behind", 2, list("one"), "GET / SPDY/3\r\nX-Request-Id: theirs\r\n\r\n"), several("noise-behind", 2, list("one"), "\x00\x01\x02\r\n\r\n"), several("empty-lines-between", 2, list("one"), "\r\n\r\n", list("two")),
		several("close-first", 1, strings.Replace(list("one"), host, host+"Connection: close\r\n", 1), list("two")), several("http-1.0-first", 1, strings.Replace(list("one"), "HTTP/1.1", "HTTP/1.0", 1), list("two")), several("unread-body-between", 2, get("/nowhere", as("pipeline"), "Content-Length: 5\r\n")+"hello", list("two")),
		several("unread-chunks-between", 1, get("/nowhere", as("pipeline"), "Transfer-Encoding: chunked\r\n")+chunked("hello"), list("two")), several("chunks-then-get", 1, strings.Replace(page("one"), "Content-Length: <<length>>\r\n\r\n"+pageBody, "Transfer-Encoding: chunked\r\n\r\n"+chunked(pageBody), 1), list("two")),
		several("too-long-then-get", 1, request("POST", open, as("pipeline"), json, "Content-Length: 2000000\r\n"), list("two")), several("body-looks-like-request", 2, strings.Replace(post(questions, smuggled, as("pipeline")), "<<length>>", strconv.Itoa(len(smuggled)), 1), list("two")),
		Exchange{Name: "one-after-the-other", Send: []string{list("one"), list("two"), withLength(page("three")), list("four")}, Responses: 4},
	)
}

// partial sends requests in pieces, and leaves early.
func partial() Group {
	whole := get("/v1/exam-prep/record-none/overview", fresh, "X-Request-Id: mine\r\n")
	body := post(questions, pageBody, fresh, "X-Request-Id: mine\r\n")
	cut := func(name, text string, at int) Exchange {
		return Exchange{Name: name, Send: []string{text[:at], text[at:]}}
	}
	leaving := func(name, text string) Exchange {
		return Exchange{Name: name, Send: []string{text}, Leave: true}
	}
	ending := func(name, text string) Exchange {
		return Exchange{Name: name, Send: []string{text}, HalfClose: true}
	}
	return group("partial",
		cut("in-method", whole, 2), cut("in-target", whole, 20), cut("in-line-end", whole, strings.Index(whole, "\r\n")+1), cut("in-header", whole, strings.Index(whole, "Host")+2), cut("in-last-line-end", whole, len(whole)-1), cut("before-last-line-end", whole, len(whole)-2),
		cut("before-body", body, strings.Index(body, "\r\n\r\n")+4), cut("in-body", body, len(body)-10), cut("last-byte", body, len(body)-1), Exchange{Name: "in-many", Send: strings.SplitAfter(body, "\r\n")},
		cut("in-chunk", chunksLine+chunked(pageBody), len(chunksLine)+10), cut("before-last-chunk", chunksLine+chunked(pageBody), len(chunksLine)+len(chunked(pageBody))-5), cut("in-last-chunk", chunksLine+chunked(pageBody), len(chunksLine)+len(chunked(pageBody))-2), cut("between-pipelined", whole+whole[:30], len(whole)),
		ending("half-closed-get", whole), ending("half-closed-post", body), ending("cut-body", strings.Replace(body, "<<length>>", "60", 1)), ending("cut-body-at-once", pageLine+mine+"Content-Length: 2\r\n\r\n"), ending("cut-body-on-get", listLine+mine+"Content-Length: 5\r\n\r\n{"), ending("cut-body-without-key", pageLine+host+"Content-Length: 5\r\n\r\n{"),
		ending("half-a-request-behind", whole+"GET /v1/ex"), leaving("leave-at-once", ""), leaving("leave-in-line", "GET /v1/ex"), leaving("leave-in-headers", listLine+mine), leaving("leave-in-body", pageLine+mine+"Content-Length: 100\r\n\r\n{"), leaving("leave-behind-request", whole), leaving("leave-behind-open", post(open, `{"paper_id":"record-geo-2024"}`, fresh)),
		leaving("leave-in-chunks", chunksLine+"5\r\n{"), one("after-those-who-left", whole),
	)
}

// expectations asks before sending a body.
func expectations() Group {
	expecting := func(name, head string) Exchange {
		return Exchange{Name: name, Send: []string{head, Continue + pageBody}}
	}
	head := func(lines ...string) string {
		return request("POST", questions, append(lines, json+"Content-Length: "+pageLength+"\r\nExpect: 100-continue\r\n")...)
	}
	return group("expect",
		expecting("continue", head(fresh)), expecting("capitals", strings.Replace(head(fresh), "100-continue", "100-Continue", 1)), expecting("without-key", head()), expecting("with-bad-key", head("Authorization: Bearer x\r\n")), expecting("limited", head(as("tiny"))),
		expecting("too-long", strings.Replace(head(fresh), pageLength, "1000000000", 1)), Exchange{Name: "chunked", Send: []string{strings.Replace(head(fresh), "Content-Length: "+pageLength, "Transfer-Encoding: chunked", 1), Continue + chunked(pageBody)}}, one("http-1.0", strings.Replace(head(fresh), "HTTP/1.1", "HTTP/1.0", 1)+pageBody), expecting("unknown-path", strings.Replace(head(fresh), questions, "/nowhere", 1)), expecting("unknown-exam", strings.Replace(head(fresh), "record-geo", "nothing", 1)),
		expecting("wrong-type", strings.Replace(head(fresh), "application/json", "text/plain", 1)), expecting("get", strings.Replace(strings.Replace(head(fresh), "POST", "GET", 1), questions, "/v1/exam-prep/list", 1)), expecting("method-not-allowed", strings.Replace(head(fresh), "POST", "PUT", 1)), expecting("developer-without-session", strings.Replace(head(), questions, developer+"/keys", 1)),
		expecting("framing", strings.Replace(head(fresh), crlf+crlf, "\r\nTransfer-Encoding: chunked\r\n\r\n", 1)), Exchange{Name: "body-sent-at-once", Send: []string{head(fresh) + pageBody}}, Exchange{Name: "twice", Send: []string{strings.Replace(head(fresh), "Expect: 100-continue", "Expect: 100-continue\r\nExpect: 100-continue", 1) + pageBody}},
		one("other-expectation", strings.Replace(head(fresh), "100-continue", "200-ok", 1)+pageBody), one("list-of-expectations", strings.Replace(head(fresh), "100-continue", "100-continue, a=b", 1)+pageBody), one("zero-length", strings.Replace(head(fresh), "Content-Length: "+pageLength, "Content-Length: 0", 1)),
	)
}

// slow waits for the server's time limits; all groups run at the same time.
func slow() []Group {
	timeout := func(name, sent string) Group {
		e := Exchange{Name: name, Send: []string{sent}, Limit: longerThanRead}
		return slowly(group("slow-"+name, e))
	}
	idle := Exchange{Name: "connection", Send: []string{get("/v1/exam-prep/list", fresh)}, Unprobed: true, Limit: longerThanIdle}
	fallen := Exchange{Name: "silent", Responses: None, Send: []string{""}, Unprobed: true, Limit: longerThanIdle}
	used := func(ctx context.Context, actor Actor) error { return awaitUsage(ctx, actor, 3) }
	whole := get("/v1/exam-prep/record-none/overview", as("eve-key"))
	return []Group{
		timeout("line", "GET /v1/exam-prep"), timeout("headers", listLine+mine), timeout("bare-line-feeds", strings.ReplaceAll(listLine+mine+"\r\n", "\r\n", "\n")), timeout("ends-in-bare-line-feed", listLine+mine+"\n"), timeout("one-long-chunk", chunksLine+"3b9aca00\r\n"+strings.Repeat(" ", 100_000)), timeout("body", pageLine+mine+"Content-Length: 2\r\n\r\n"), timeout("body-begun", pageLine+mine+"Content-Length: 20\r\n\r\n{\"paper"),
		timeout("chunks", chunksLine), timeout("chunks-begun", chunksLine+"5\r\n{"), timeout("last-chunk", chunksLine+chunked(pageBody)[:len(chunked(pageBody))-2]), timeout("expected-body", pageLine+mine+"Content-Length: "+pageLength+"\r\nExpect: 100-continue\r\n\r\n"), timeout("body-without-key", pageLine+host+json+"Content-Length: 20\r\n\r\n{"), timeout("body-on-get", listLine+mine+"Content-Length: 20\r\n\r\n{"),
		slowly(group("idle", idle)), slowly(group("idle-fresh", fallen)),
		slowly(group("counted",
			withBefore(keeping(one("create-key", post(developer+"/keys", `{"name":"counted"}`, cookie("eve"))), "eve-key", "body.key", "eve-prefix", "body.key_prefix"), signedIn("eve")),
			one("use-1", whole), one("use-2", strings.Replace(whole, "overview", "resources", 1)), one("use-3", strings.Replace(whole, "overview", "nowhere", 1)),
			withBefore(one("usage", get(developer+"/usage", cookie("eve"))), used), one("usage-of-key", get(developer+"/usage?key_prefix=<<eve-prefix>>", cookie("eve"))), one("last-used", get(developer+"/keys", cookie("eve"))),
		)),
	}
}

func slowly(g Group) Group {
	g.Slow = true
	return g
}

// awaitUsage waits until requests are counted, or long enough: what is recorded then shows which.
func awaitUsage(ctx context.Context, actor Actor, requests int) error {
	ctx, cancel := context.WithTimeout(ctx, longerThanUsage)
	defer cancel()
	poll := time.NewTicker(2 * time.Second)
	defer poll.Stop()
	for {
		_, body, err := actor.Send(ctx, get(developer+"/usage", cookie("eve")))
		if err == nil && strings.Contains(string(body), `"total":{"requests":`+string(rune('0'+requests))) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
	}
}
