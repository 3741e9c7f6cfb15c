package script

import "strings"

// openAs opens a paper and keeps the attempt's id in a variable.
func openAs(name, variable, key, body string) Exchange {
	return keeping(one(name, post(open, body, key)), variable, "body.attempt_id")
}

// attempts follows attempts from opening to every end.
func attempts() Group {
	key := as("attempts")
	opening := func(name, body string) Exchange { return one(name, post(open, body, key)) }
	page := func(name, body string) Exchange { return one(name, post(questions, body, key)) }
	submitting := func(name, body string) Exchange { return one(name, post(submit, body, key)) }
	const whole = `{"1:1":"b","1:2":"c, a","1:3":"A","2:1":"40000","2:2":"90.0","2:3":"  strait of  GIBRALTAR ","2:4":"Because of the air."}`
	return group("attempts",
		openAs("open", "attempt", key, `{"paper_id":"record-geo-2024"}`),
		opening("open-page", `{"paper_id":"record-geo-2023","question_offset":20,"question_limit":3,"learner_id":"ada"}`),
		opening("open-behind-last", `{"paper_id":"record-geo-2023","question_offset":25}`), opening("open-far-behind", `{"paper_id":"record-geo-2023","question_offset":9007199254740991}`),
		opening("open-most", `{"paper_id":"record-geo-2023","question_limit":20}`), opening("open-numbers-as-floats", `{"paper_id":"record-geo-2023","question_offset":1.0,"question_limit":2e0}`),
		opening("open-unknown-fields", `{"paper_id":"record-geo-2024","question_limit":1,"x":{"paper_id":1},"":[]}`), opening("open-unusual-text", `{"paper_id":"record-geo-resit"}`),
		openAs("open-learner", "learner-attempt", key, `{"paper_id":"record-geo-2024","learner_id":"learner é \u0000?","question_limit":1}`),
		openAs("open-learner-plain", "bob-attempt", key, `{"paper_id":"record-geo-2024","learner_id":"bob","question_limit":1}`),
		opening("open-empty-learner", `{"paper_id":"record-geo-2024","learner_id":"","question_limit":1}`),
		keeping(one("open-without-deadline", post("/v1/exam-prep/record-none/mock-exams/open", `{"paper_id":"record-none-2020"}`, key)), "endless", "body.attempt_id"),
		opening("open-no-paper", `{"paper_id":"record-geo-1999"}`), opening("open-paper-of-another-exam", `{"paper_id":"record-none-2020"}`),
		one("open-no-exam", post("/v1/exam-prep/nothing/mock-exams/open", `{"paper_id":"record-geo-2024"}`, key)),
		one("open-charset", strings.Replace(post(open, `{"paper_id":"record-geo-2024","question_limit":1}`, key), "json\r\n", "json; charset=UTF-8\r\n", 1)),
		page("page", `{"paper_id":"record-geo-2024"}`), page("page-middle", `{"paper_id":"record-geo-2023","question_offset":9,"question_limit":9}`),
		page("page-last", `{"paper_id":"record-geo-2023","question_offset":18}`), page("page-behind", `{"paper_id":"record-geo-2023","question_offset":100}`),
		page("page-of-learner", `{"paper_id":"record-geo-2024","learner_id":"bob","question_limit":2}`), page("page-no-paper", `{"paper_id":"record-geo-1999"}`),
		one("page-no-exam", post("/v1/exam-prep/nothing/mock-exams/questions", `{"paper_id":"record-geo-2024"}`, key)),
		submitting("submit", `{"attempt_id":"<<attempt>>","answers":`+whole+`}`), submitting("submit-again", `{"attempt_id":"<<attempt>>","answers":`+whole+`}`),
		submitting("submit-again-in-other-words", `{"answers":{"2:4":"Because of the air.","1:1":"B","1:2":"AC","1:3":"a","2:1":"4e4","2:2":"90","2:3":"Strait of Gibraltar"},"attempt_id":"<<attempt>>"}`),
		submitting("submit-other-answers", `{"attempt_id":"<<attempt>>","answers":{"1:1":"A"}}`),
		submitting("submit-other-status", `{"attempt_id":"<<attempt>>","status":"abandoned","answers":`+whole+`}`),
		page("page-after-submit", `{"paper_id":"record-geo-2024","question_limit":1}`),
		submitting("submit-without-learner", `{"attempt_id":"<<bob-attempt>>","answers":{}}`),
		submitting("submit-of-another-learner", `{"attempt_id":"<<bob-attempt>>","learner_id":"ada","answers":{}}`),
		one("submit-of-another-key", post(submit, `{"attempt_id":"<<bob-attempt>>","learner_id":"bob","answers":{}}`, as("other"))),
		one("submit-of-another-exam", post("/v1/exam-prep/record-none/mock-exams/submit", `{"attempt_id":"<<bob-attempt>>","learner_id":"bob","answers":{}}`, key)),
		submitting("submit-empty", `{"attempt_id":"<<bob-attempt>>","learner_id":"bob","answers":{}}`),
		submitting("submit-learner-with-nul", `{"attempt_id":"<<learner-attempt>>","learner_id":"learner é \u0000?","answers":{"1:1":""}}`),
		one("submit-endless-expired", post("/v1/exam-prep/record-none/mock-exams/submit", `{"attempt_id":"<<endless>>","status":"expired","answers":{"1":"A","2":"4.5"}}`, key)),
		openAs("open-to-abandon", "abandoned", key, `{"paper_id":"record-geo-2023","question_limit":1}`),
		submitting("abandon", `{"attempt_id":"<<abandoned>>","status":"abandoned","answers":{"1":"A"}}`), submitting("abandon-again", `{"attempt_id":"<<abandoned>>","status":"abandoned","answers":{"1":"A"}}`),
		submitting("abandon-then-submit", `{"attempt_id":"<<abandoned>>","answers":{"1":"A"}}`),
		openAs("open-plain-numbers", "plain", key, `{"paper_id":"record-geo-2023","question_limit":1}`),
		submitting("submit-plain-numbers", `{"attempt_id":"<<plain>>","status":"submitted","answers":{"1":"A","2":"B","03":"C","1:4":"D"}}`),
		submitting("submit-plain-numbers-right", `{"attempt_id":"<<plain>>","status":"submitted","answers":{"1":"A","2":"B","3":"C","1:4":"A","25":""}}`),
		submitting("submit-unknown-attempt", `{"attempt_id":"00000000-0000-4000-8000-000000000000","answers":{}}`),
		submitting("submit-no-uuid", `{"attempt_id":"attempt-1","answers":{}}`),
		submitting("submit-uuid-in-capitals", `{"attempt_id":"00000000-0000-4000-8000-00000000000A","answers":{}}`),
		one("submit-no-exam", post("/v1/exam-prep/nothing/mock-exams/submit", `{"attempt_id":"<<attempt>>","answers":{}}`, key)),
	)
}

// answers sends answers that are none; nothing is recorded.
func answers() Group {
	key := as("answers")
	submitting := func(name, answers string) Exchange {
		return one(name, post(submit, `{"attempt_id":"<<answered>>","answers":`+answers+`}`, key))
	}
	return group("answers",
		openAs("open", "answered", key, `{"paper_id":"record-geo-2024","question_limit":1}`),
		submitting("unknown-id", `{"9:9":"A"}`), submitting("unknown-number", `{"99":"A"}`), submitting("unknown-text", `{"first":"A"}`), submitting("unknown-empty", `{"":"A"}`),
		submitting("unknown-several", `{"8:8":"A","9:9":"B","1:1":"A"}`), submitting("ambiguous", `{"1":"A"}`), submitting("ambiguous-zero", `{"0":"A"}`),
		submitting("invalid-option", `{"1:1":"E"}`), submitting("invalid-option-several", `{"1:1":"AB"}`), submitting("invalid-option-word", `{"1:1":"Canberra"}`),
		submitting("invalid-option-in-many", `{"1:2":"A,E"}`), submitting("invalid-option-twice", `{"1:2":"AA"}`), submitting("invalid-number", `{"2:1":"many"}`),
		submitting("invalid-number-hex", `{"2:1":"0x10"}`), submitting("invalid-number-comma", `{"2:1":"40,075"}`), submitting("invalid-number-infinite", `{"2:1":"Infinity"}`),
		submitting("invalid-number-long", `{"2:1":"`+strings.Repeat("9", 400)+`"}`), submitting("annulled-invalid", `{"1:4":"Z"}`),
		submitting("duplicate", `{"1:1":"A","1:1":"A"}`), submitting("duplicate-escaped", `{"1:1":"A","\u0031:1":"A"}`), submitting("duplicate-two-names", `{"1:1":"A","01:1":"A"}`),
		submitting("value-number", `{"1:1":1}`), submitting("value-null", `{"1:1":null}`), submitting("value-list", `{"1:1":["A"]}`), submitting("nul-in-key", `{"1:1\u0000":"A"}`),
		submitting("nul-in-value", `{"2:3":"a\u0000b"}`), submitting("text-long", `{"2:3":"`+strings.Repeat("x", 70_000)+`"}`), submitting("not-an-object", `["A"]`), submitting("null", `null`),
		submitting("mixed-faults", `{"9:9":"A","1:1":"E","1":"B"}`), submitting("good-at-last", `{"1:1":"A","1:4":"B"}`),
		openAs("open-single-section", "single", key, `{"paper_id":"record-geo-2023","question_limit":1}`),
		one("duplicate-number-and-id", post(submit, `{"attempt_id":"<<single>>","answers":{"1":"A","1:1":"A"}}`, key)),
		one("many", post(submit, `{"attempt_id":"<<single>>","answers":{`+manyAnswers()+`}}`, key)),
	)
}

// manyAnswers is more unknown answers than an error lists.
func manyAnswers() string {
	var list []string
	for c := 'a'; c <= 'z'; c++ {
		list = append(list, `"`+string(c)+`":"A"`)
	}
	return strings.Join(list, ",")
}

// invalidFields breaks each field of the three request bodies.
func invalidFields() Group {
	var list []Exchange
	fields := []struct {
		name   string
		values []string
	}{
		{"paper_id", []string{`null`, `1`, `""`, `"short"`, `"` + strings.Repeat("é", 160) + `"`, `"` + strings.Repeat("a", 161) + `"`, `"record-geo-\u0000"`, `{"a":1}`, `["record-geo-2024"]`}},
		{"question_offset", []string{`-1`, `"0"`, `0.5`, `9007199254740992`, `1e999`, `-1e999`, `null`, `true`, `-0`, `[]`}},
		{"question_limit", []string{`0`, `21`, `1.5`, `"9"`, `null`, `-9223372036854775809`, `20.0`, `2E1`, `{}`}},
		{"learner_id", []string{`1`, `null`, `"` + strings.Repeat("é", 160) + `"`, `"` + strings.Repeat("a", 161) + `"`, `false`}},
	}
	for _, field := range fields {
		for i, value := range field.values {
			body := `{"paper_id":"record-geo-2024","question_limit":1,"` + field.name + `":` + value + `}`
			switch field.name {
			case "paper_id":
				body = `{"question_limit":1,"paper_id":` + value + `}`
			case "question_limit":
				body = `{"paper_id":"record-geo-2024","question_limit":` + value + `}`
			}
			list = append(list, numbered(field.name+"-"+string(rune('a'+i)), post(questions, body, fresh))...)
		}
	}
	list = append(list,
		one("open-nothing", post(open, `{}`, fresh)), one("open-all-wrong", post(open, `{"paper_id":1,"question_offset":"a","question_limit":[],"learner_id":{}}`, fresh)),
		one("submit-nothing", post(submit, `{}`, fresh)), one("submit-all-wrong", post(submit, `{"attempt_id":1,"answers":[],"status":2,"learner_id":3}`, fresh)),
		one("submit-status-unknown", post(submit, `{"attempt_id":"00000000-0000-4000-8000-000000000000","answers":{},"status":"done"}`, fresh)),
		one("submit-status-other-case", post(submit, `{"attempt_id":"00000000-0000-4000-8000-000000000000","answers":{},"status":"Submitted"}`, fresh)),
		one("submit-status-null", post(submit, `{"attempt_id":"00000000-0000-4000-8000-000000000000","answers":{},"status":null}`, fresh)),
		one("submit-short-id", post(submit, `{"attempt_id":"12345","answers":{}}`, fresh)), one("submit-long-id", post(submit, `{"attempt_id":"`+strings.Repeat("a", 161)+`","answers":{}}`, fresh)),
		one("submit-nul-id", post(submit, `{"attempt_id":"abcdef\u0000","answers":{}}`, fresh)),
	)
	return group("fields", list...)
}

// history lists attempts of a key, whole, by page and by learner.
func history() Group {
	key := as("history")
	list := func(name, query string) Exchange {
		return one(name, get("/v1/exam-prep/record-geo/mock-exams/history"+query, key))
	}
	exchanges := []Exchange{list("empty", ""), headOf(one("empty-head", request("HEAD", geo+"/mock-exams/history", key)))}
	for _, number := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"} {
		learner := ""
		if strings.ContainsAny(number, "13579") {
			learner = `,"learner_id":"odd"`
		}
		exchanges = append(exchanges, openAs("open-"+number, "history-"+number, key, `{"paper_id":"record-geo-2023","question_limit":1`+learner+`}`))
	}
	exchanges = append(exchanges,
		one("submit-1", post(submit, `{"attempt_id":"<<history-1>>","learner_id":"odd","answers":{"1":"A","2":"B"}}`, key)),
		one("submit-2", post(submit, `{"attempt_id":"<<history-2>>","status":"abandoned","answers":{}}`, key)),
		one("submit-4", post(submit, `{"attempt_id":"<<history-4>>","status":"expired","answers":{"1":"B"}}`, key)),
		list("default", ""), list("limit", "?limit=3"), list("offset", "?offset=9"), list("page", "?limit=4&offset=4"), list("most", "?limit=50"), list("behind", "?offset=12"),
		list("far-behind", "?offset=9007199254740991"), list("learner", "?learner_id=odd"), list("learner-page", "?learner_id=odd&limit=2&offset=1"),
		list("learner-unknown", "?learner_id=nobody"), list("learner-empty", "?learner_id="), list("limit-zero", "?limit=0"), list("limit-too-large", "?limit=51"),
		list("limit-empty", "?limit="), list("limit-plus", "?limit=%2B5"), list("limit-space", "?limit=+5"), list("limit-float", "?limit=5.0"), list("limit-huge", "?limit=99999999999999999999"),
		list("limit-twice", "?limit=5&limit=5"), list("limit-negative", "?limit=-1"), list("limit-zeros", "?limit=0005"), list("offset-negative", "?offset=-1"), list("offset-too-large", "?offset=9007199254740992"),
		list("learner-too-long", "?learner_id="+strings.Repeat("a", 161)), list("learner-nul", "?learner_id=%00"), list("learner-broken", "?learner_id=%ff"), list("several-wrong", "?limit=x&offset=y&learner_id=%ff"),
		one("of-another-key", get(geo+"/mock-exams/history", as("other"))), one("of-another-exam", get("/v1/exam-prep/record-none/mock-exams/history", key)),
		one("no-exam", get("/v1/exam-prep/nothing/mock-exams/history", key)),
	)
	return group("history", exchanges...)
}
