package script

import (
	"maps"
	"slices"
	"strings"
)

// hostileJSON sends bodies that are not JSON, or JSON that readers understand differently, and other media types.
func hostileJSON() Group {
	const page = `"paper_id":"record-geo-2024","question_limit":1`
	bodies := map[string]string{
		"empty-object": `{}`, "list": `[]`, "list-of-object": `[{` + page + `}]`, "text": `"record-geo-2024"`, "number": `1`, "null": `null`, "true": `true`, "nothing-but-space": " \n\t ", "word": `hello`, "open-brace": `{`, "open-text": `{"paper_id":"rec`, "open-name": `{"pap`, "no-value": `{"paper_id"}`, "no-value-colon": `{"paper_id":}`,
		"trailing-comma": `{` + page + `,}`, "leading-comma": `{,` + page + `}`, "two-commas": `{` + page + `,,"a":1}`, "single-quotes": `{'paper_id':'record-geo-2024'}`, "bare-name": `{paper_id:"record-geo-2024"}`, "comment": `{` + page + `/* a */}`, "line-comment": "{" + page + "// a\n}", "two-values": `{` + page + `}{` + page + `}`, "trailing-text": `{` + page + `} x`,
		"trailing-space": `{` + page + "} \r\n\t ", "trailing-nul": `{` + page + "}\x00", "leading-space": " \r\n\t{" + page + `}`, "byte-order-mark": "\xef\xbb\xbf{" + page + `}`, "utf-16": "\xfe\xff\x00{\x00}", "form-feed": "\f{" + page + `}`, "no-break-space": "\xc2\xa0{" + page + `}`,
		"duplicate": `{` + page + `,"paper_id":"record-geo-2024"}`, "duplicate-escaped": `{` + page + `,"paper\u005fid":"record-geo-2024"}`, "duplicate-unknown": `{` + page + `,"x":1,"x":2}`, "duplicate-nested": `{` + page + `,"x":{"y":1,"y":2}}`, "duplicate-empty-name": `{` + page + `,"":1,"":2}`, "duplicate-other-case": `{` + page + `,"PAPER_ID":"x"}`, "name-escaped": `{"paper\u005fid":"record-geo-2024","question_limit":1}`,
		"bad-utf8-in-value": "{\"paper_id\":\"record-geo-\xff\"}", "bad-utf8-in-name": "{\"\xff\":1," + page + `}`, "bad-utf8-in-unknown": `{` + page + ",\"x\":\"\xc3\"}", "overlong": "{\"paper_id\":\"record-geo-\xc0\xaf\"}", "lone-surrogate": `{"paper_id":"record-geo-\ud800"}`, "surrogates-reversed": `{"paper_id":"record-geo-\udc00\ud800"}`, "surrogate-bytes": "{\"paper_id\":\"record-\xed\xa0\x80\"}",
		"raw-control": "{\"paper_id\":\"record\x01geo\"}", "raw-newline": "{\"paper_id\":\"record\ngeo\"}", "bad-escape": `{"paper_id":"record\x"}`, "short-unicode-escape": `{"paper_id":"record\u12"}`, "escaped-nul": `{"paper_id":"record-geo-2024\u0000"}`, "escaped-slash": `{"paper_id":"record-geo\/2024"}`, "escaped-letters": `{"paper_id":"record-ge\u006f-2024","question_limit":1}`,
		"leading-zero": `{"paper_id":"record-geo-2024","question_limit":01}`, "plus": `{"paper_id":"record-geo-2024","question_limit":+1}`, "hex": `{"paper_id":"record-geo-2024","question_limit":0x1}`, "nan": `{"paper_id":"record-geo-2024","question_limit":NaN}`, "infinity": `{"paper_id":"record-geo-2024","question_limit":Infinity}`, "point-only": `{"paper_id":"record-geo-2024","question_limit":.5}`, "point-last": `{"paper_id":"record-geo-2024","question_limit":1.}`, "exponent-only": `{"paper_id":"record-geo-2024","question_limit":1e}`, "minus-only": `{"paper_id":"record-geo-2024","question_limit":-}`,
		"many-digits": `{"paper_id":"record-geo-2024","question_limit":` + strings.Repeat("9", 10_000) + `}`, "many-decimals": `{"paper_id":"record-geo-2024","question_limit":1.` + strings.Repeat("0", 10_000) + `}`, "huge-exponent": `{"paper_id":"record-geo-2024","question_limit":1e999999999}`, "tiny-exponent": `{"paper_id":"record-geo-2024","question_offset":1e-999999999}`, "negative-zero": `{"paper_id":"record-geo-2024","question_offset":-0.0,"question_limit":1}`,
		"depth-31": `{` + page + `,"x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`, "depth-32": `{` + page + `,"x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, "depth-objects": `{` + page + `,"x":` + strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40) + `}`, "depth-bomb": strings.Repeat("[", 500_000), "depth-bomb-objects": strings.Repeat(`{"a":`, 150_000), "depth-bomb-in-field": `{"paper_id":` + strings.Repeat("[", 200_000),
		"depth-and-duplicate": `{"x":1,"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, "many-names": `{` + page + manyNames(5000) + `}`, "long-name": `{` + page + `,"` + strings.Repeat("a", 500_000) + `":1}`, "long-text": `{` + page + `,"x":"` + strings.Repeat("a", 900_000) + `"}`, "long-list": `{` + page + `,"x":[` + strings.Repeat("1,", 400_000) + `1]}`, "wrong-closing": `{` + page + `]`, "closing-only": `}`, "proto": `{` + page + `,"__proto__":{"paper_id":"x"},"constructor":1}`,
		"form": `paper_id=record-geo-2024`, "xml": `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>`, "gzip-bytes": "\x1f\x8b\x08\x00\x00\x00\x00\x00",
	}
	types := map[string]string{
		"none": "", "empty": "Content-Type: \r\n", "text": "Content-Type: text/plain\r\n", "form": "Content-Type: application/x-www-form-urlencoded\r\n", "multipart": "Content-Type: multipart/form-data; boundary=a\r\n", "problem": "Content-Type: application/problem+json\r\n", "json-seq": "Content-Type: application/json-seq\r\n", "text-json": "Content-Type: text/json\r\n", "capitals": "Content-Type: APPLICATION/JSON\r\n",
		"charset": "Content-Type: application/json; charset=utf-8\r\n", "charset-quoted": "Content-Type: application/json; charset=\"UTF-8\"\r\n", "charset-latin": "Content-Type: application/json; charset=iso-8859-1\r\n", "charset-empty": "Content-Type: application/json; charset=\r\n", "charset-twice": "Content-Type: application/json; charset=utf-8; charset=utf-8\r\n", "parameter": "Content-Type: application/json; a=b\r\n", "semicolon": "Content-Type: application/json;\r\n", "two": "Content-Type: application/json, text/plain\r\n",
		"twice": json + "Content-Type: text/plain\r\n", "twice-other-order": "Content-Type: text/plain\r\n" + json, "noise": "Content-Type: \xff\r\n", "spaces": "Content-Type:   application/json  \r\n", "slash-only": "Content-Type: /\r\n", "coding-gzip": json + "Content-Encoding: gzip\r\n", "coding-identity": json + "Content-Encoding: identity\r\n", "coding-empty": json + "Content-Encoding: \r\n", "coding-unknown": json + "Content-Encoding: x\r\n", "coding-list": json + "Content-Encoding: identity, identity\r\n",
	}
	var list []Exchange
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		list = append(list, one(name, pageLine+mine+"Content-Length: <<length>>\r\n\r\n"+bodies[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		list = append(list, one("type-"+name, request("POST", questions, fresh, types[name], "Content-Length: <<length>>\r\n")+"{"+page+"}"))
	}
	list = append(list, one("type-wrong-and-body-broken", request("POST", questions, fresh, "Content-Type: text/plain\r\n", "Content-Length: 1\r\n")+"{"),
		one("type-none-and-no-body", request("POST", questions, fresh, "Content-Length: 0\r\n")), one("type-wrong-on-unknown-exam", request("POST", "/v1/exam-prep/nothing/mock-exams/open", fresh, "Content-Type: text/plain\r\n", "Content-Length: 2\r\n")+"{}"))
	return group("hostile-json", list...)
}

// manyNames is so many different members.
func manyNames(count int) string {
	var names strings.Builder
	for i := range count {
		names.WriteString(`,"` + strings.Repeat("n", i%7) + string(rune('a'+i%26)) + strings.Repeat("0", i/182) + `":1`)
	}
	return names.String()
}
