package main

import "testing"

func TestAnAnswerIsTakenWhenItIsWhole(t *testing.T) {
	const text = "HTTP/1.1 429 Too Many Requests\r\nDate: x\r\nContent-Length: 4\r\n\r\nbody"
	for n := range text {
		if _, _, whole, err := parseAnswer([]byte(text[:n])); whole || err != nil {
			t.Fatalf("after %d bytes: whole %v, %v", n, whole, err)
		}
	}
	status, body, whole, err := parseAnswer([]byte(text))
	if status != 429 || string(body) != "body" || !whole || err != nil {
		t.Errorf("got %d %q, whole %v, %v", status, body, whole, err)
	}
}

func TestAnAnswerThatCannotBeMeasuredIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"no length":       "HTTP/1.1 200 OK\r\nDate: x\r\n\r\n",
		"negative length": "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"no status":       "HTTP/1.1 x\r\nContent-Length: 0\r\n\r\n",
		"short":           "HTTP\r\n\r\n",
		"more than asked": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
	} {
		if _, _, whole, err := parseAnswer([]byte(text)); whole || err == nil {
			t.Errorf("%s: whole %v, %v", name, whole, err)
		}
	}
}
