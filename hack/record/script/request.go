package script

import (
	"strconv"
	"strings"
)

const (
	geo       = "/v1/exam-prep/record-geo"
	open      = geo + "/mock-exams/open"
	questions = geo + "/mock-exams/questions"
	submit    = geo + "/mock-exams/submit"
	developer = "/v1/developer"

	host  = "Host: record\r\n"
	json  = "Content-Type: application/json\r\n"
	fresh = "Authorization: Bearer <<fresh>>\r\n"
	crlf  = "\r\n"
)

// request joins a request's lines; lines end in CRLF.
func request(method, target string, lines ...string) string {
	return method + " " + target + " HTTP/1.1\r\n" + host + strings.Join(lines, "") + crlf
}

func get(target string, lines ...string) string { return request("GET", target, lines...) }

// send is a request with a JSON body.
func send(method, target, body string, lines ...string) string {
	return request(method, target, append(lines, json+"Content-Length: <<length>>\r\n")...) + body
}

func post(target, body string, lines ...string) string { return send("POST", target, body, lines...) }

// as is the Authorization line of a named key.
func as(key string) string { return "Authorization: Bearer <<" + key + ">>\r\n" }

// cookie is the Cookie line of a signed-in person.
func cookie(person string) string { return "Cookie: __Host-examprep_session=<<" + person + ">>\r\n" }

// one is an exchange of one request and one response.
func one(name, text string) Exchange { return Exchange{Name: name, Send: []string{text}} }

func keeping(e Exchange, keep ...string) Exchange {
	e.Keep = make(map[string]string, len(keep)/2)
	for i := 0; i+1 < len(keep); i += 2 {
		e.Keep[keep[i]] = keep[i+1]
	}
	return e
}

func headOf(e Exchange) Exchange {
	e.Head = true
	return e
}

func digested(e Exchange) Exchange {
	e.Digest = true
	return e
}

func group(name string, exchanges ...Exchange) Group {
	for i := range exchanges {
		exchanges[i].Name = name + "/" + exchanges[i].Name
	}
	return Group{Name: name, Exchanges: exchanges}
}

// numbered names exchanges whose request says best what they are.
func numbered(prefix string, texts ...string) []Exchange {
	list := make([]Exchange, len(texts))
	for i, text := range texts {
		list[i] = one(prefix+"-"+strconv.Itoa(i+1), text)
	}
	return list
}
