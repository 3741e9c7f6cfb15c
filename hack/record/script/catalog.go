package script

import "slices"

// catalog reads every document, and lists exams in every order.
func catalog() Group {
	key := as("catalog")
	list := func(name, query string) Exchange { return one(name, get("/v1/exam-prep/list"+query, key)) }
	return group("catalog",
		list("list", ""), list("list-country-english", "?country=Switzerland"), list("list-country-native", "?country=Schweiz"),
		list("list-country-folded", "?country=%20cote%20D%27ivoire%20"), list("list-country-accents", "?country=C%C3%B4te+d%E2%80%99Ivoire"),
		list("list-country-other-script", "?country=%E6%97%A5%E6%9C%AC"), list("list-country-japan", "?country=Japan"),
		list("list-country-own-text", "?country=ELBONIA"), list("list-country-brazil", "?country=Brazil"), list("list-country-brasil", "?country=brasil"),
		list("list-country-germany", "?country=Germany"), list("list-country-full-name", "?country=United+States+of+America"),
		list("list-country-nickname-usa", "?country=USA"), list("list-country-nickname-america", "?country=America"),
		list("list-country-nickname-holland", "?country=Holland"), list("list-country-is-a-code", "?country=BR"), list("list-country-iso3", "?country=BRA"),
		list("list-country-czech-republic", "?country=Czech+Republic"), list("list-country-turkey", "?country=Turkey"), list("list-country-viet-nam", "?country=Viet+Nam"),
		list("list-country-unknown", "?country=Atlantis"), list("list-country-empty", "?country="), list("list-country-punctuation", "?country=%21%21"),
		list("list-code", "?country_code=JP"), list("list-code-small", "?country_code=ch"), list("list-code-before-country", "?country=Brazil&country_code=CH"),
		list("list-code-same-as-country", "?country=Japan&country_code=JP"), list("list-code-without-exams", "?country_code=ZZ"),
		list("list-code-uk", "?country_code=UK"), list("list-unknown-parameter", "?limit=1&x=%zz"),
		one("overview", get(geo+"/overview", key)), one("resources", get(geo+"/resources", key)),
		one("study-path", get(geo+"/study-path", key)), one("papers", get(geo+"/mock-exams", key)),
		one("overview-least", get("/v1/exam-prep/record-none/overview", key)), one("resources-none", get("/v1/exam-prep/record-none/resources", key)),
		one("study-path-none", get("/v1/exam-prep/record-none/study-path", key)), one("papers-one", get("/v1/exam-prep/record-none/mock-exams", key)),
		one("overview-other-script", get("/v1/exam-prep/record-japan/overview", key)), one("overview-large", get("/v1/exam-prep/record-large/overview", key)),
		one("overview-with-query", get(geo+"/overview?a=b", key)),
		one("overview-not-found", get("/v1/exam-prep/nothing/overview", key)), one("resources-not-found", get("/v1/exam-prep/nothing/resources", key)),
		one("study-path-not-found", get("/v1/exam-prep/nothing/study-path", key)), one("papers-not-found", get("/v1/exam-prep/nothing/mock-exams", key)),
		one("overview-other-case", get("/v1/exam-prep/RECORD-GEO/overview", key)), one("overview-escaped", get("/v1/exam-prep/record%2Dgeo/overview", key)),
	)
}

const largeTag = "<<large-tag>>"

// conditional keeps an ETag and asks with it.
func conditional() Group {
	key := as("catalog")
	first := keeping(one("first", get("/v1/exam-prep/record-large/overview", key)), "large-tag", "header.Etag")
	again := func(name, lines string) Exchange {
		return one(name, get("/v1/exam-prep/record-large/overview", key, lines))
	}
	return group("conditional", first,
		again("same", "If-None-Match: "+largeTag+crlf), again("weak", "If-None-Match: W/"+largeTag+crlf), again("star", "If-None-Match: *\r\n"),
		again("in-list", "If-None-Match: \"a\", "+largeTag+" ,\"b\"\r\n"), again("in-second-line", "If-None-Match: \"a\"\r\nIf-None-Match: "+largeTag+crlf),
		again("other", "If-None-Match: \"a\"\r\n"), again("without-quotes", "If-None-Match: a\r\n"), again("empty", "If-None-Match: \r\n"),
		again("if-match-ignored", "If-Match: \"a\"\r\n"), again("modified-since-ignored", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n"),
		again("plain-tag-for-coded", "If-None-Match: "+largeTag+"\r\nAccept-Encoding: gzip\r\n"),
		keeping(again("first-gzip", "Accept-Encoding: gzip\r\n"), "gzip-tag", "header.Etag"),
		again("coded-tag", "If-None-Match: <<gzip-tag>>\r\nAccept-Encoding: gzip\r\n"), again("coded-tag-for-plain", "If-None-Match: <<gzip-tag>>\r\n"),
		headOf(one("head-same", request("HEAD", "/v1/exam-prep/record-large/overview", key, "If-None-Match: "+largeTag+crlf))),
		one("list-star", get("/v1/exam-prep/list", key, "If-None-Match: *\r\n")),
		one("history-star-ignored", get(geo+"/mock-exams/history", key, "If-None-Match: *\r\n")),
		one("not-found-star", get("/v1/exam-prep/nothing/overview", key, "If-None-Match: *\r\n")),
	)
}

// encodings asks for content codings with every kind of weight.
func encodings() Group {
	key := as("catalog")
	accepts := map[string]string{
		"br": "br", "zstd": "zstd", "gzip": "gzip", "all": "gzip, deflate, br, zstd", "capitals": "GZIP", "unknown": "deflate, compress",
		"star": "*", "star-beside": "gzip;q=0.5, *;q=0.1", "weights": "br;q=0.1, gzip;q=0.9", "weights-equal": "gzip;q=0.5, zstd;q=0.5",
		"refused": "br;q=0, gzip", "all-refused": "br;q=0, gzip;q=0, zstd;q=0", "identity-best": "identity, gzip;q=0.5", "identity-refused": "identity;q=0, *",
		"identity-refused-gzip": "identity;q=0, gzip;q=0.2", "three-decimals": "gzip;q=0.001", "weight-too-long": "gzip;q=0.0001", "weight-too-large": "gzip;q=2",
		"weight-broken": "gzip;q=x", "empty": "", "spaces": "  gzip  ;  q=1 , br;q=0", "noise": ",;q=,gzip;;;", "x-gzip": "x-gzip", "gzip-twice": "gzip;q=0, gzip;q=1",
	}
	var list []Exchange
	for _, name := range sortedKeys(accepts) {
		list = append(list, one(name, get("/v1/exam-prep/record-large/study-path", key, "Accept-Encoding: "+accepts[name]+crlf)))
	}
	list = append(list,
		one("two-lines", get("/v1/exam-prep/record-large/study-path", key, "Accept-Encoding: br;q=0\r\nAccept-Encoding: gzip\r\n")),
		one("small-document", get("/v1/exam-prep/record-none/overview", key, "Accept-Encoding: br\r\n")),
		one("list", get("/v1/exam-prep/list", key, "Accept-Encoding: br\r\n")),
		one("questions-never", post(questions, `{"paper_id":"record-geo-2023","question_limit":20}`, key, "Accept-Encoding: br\r\n")),
		one("error-never", get("/v1/exam-prep/nothing/overview", key, "Accept-Encoding: br\r\n")),
		headOf(one("head-gzip", request("HEAD", "/v1/exam-prep/record-large/study-path", key, "Accept-Encoding: gzip\r\n"))),
	)
	return group("encodings", slices.Clip(list)...)
}

// reference reads the contract and its page; bodies are compared by digest.
func reference() Group {
	page := func(name, target string, lines ...string) Exchange { return digested(one(name, get(target, lines...))) }
	return group("reference",
		page("openapi", "/v1/openapi.json"), page("openapi-gzip", "/v1/openapi.json", "Accept-Encoding: gzip\r\n"),
		keeping(page("openapi-again", "/v1/openapi.json"), "openapi-tag", "header.Etag"),
		page("openapi-unchanged", "/v1/openapi.json", "If-None-Match: <<openapi-tag>>\r\n"),
		page("openapi-with-key", "/v1/openapi.json", fresh), page("openapi-with-bad-key", "/v1/openapi.json", "Authorization: Bearer x\r\n"),
		page("docs", "/docs"), page("docs-script", "/docs/start.js"), page("docs-bundle", "/docs/swagger-ui-bundle.js"),
		page("docs-bundle-br", "/docs/swagger-ui-bundle.js", "Accept-Encoding: br\r\n"), page("docs-style", "/docs/swagger-ui.css"),
		page("docs-icon", "/docs/favicon-32x32.png"), page("docs-index-by-name", "/docs/index.html"), page("docs-unknown", "/docs/x"),
		page("docs-slash", "/docs/"), page("docs-dots", "/docs/../docs"), page("docs-escaped-dots", "/docs/%2e%2e"), page("docs-deeper", "/docs/a/b"),
		headOf(one("openapi-head", request("HEAD", "/v1/openapi.json"))), headOf(one("docs-head", request("HEAD", "/docs"))),
		one("openapi-post", request("POST", "/v1/openapi.json", "Content-Length: 0\r\n")), one("docs-options", request("OPTIONS", "/docs")),
		one("root", get("/")), headOf(one("root-head", request("HEAD", "/"))),
	)
}
