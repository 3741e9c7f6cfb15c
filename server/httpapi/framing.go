package httpapi

import (
	"bytes"
	"context"

	"github.com/valyala/fasthttp"
)

// refuseAmbiguous refuses what fasthttp reads in one way and somebody in front of it may have read in another (RFC 9112
// §2.2, §3.2, §5, §6): a body with two lengths or of an unknown coding, a bare line feed, a folded line, a target of
// another form. Its connection ends, so nothing is smuggled in behind it. So does the connection of every request in
// chunks: fasthttp ends their trailer at a bare line feed too, and shows nobody how it was written.
func (s *Server) refuseAmbiguous(_ *route, next handler) handler {
	return func(ctx context.Context, r *request) error {
		problem, closes := readFraming(&r.http.Request.Header)
		if closes {
			r.http.SetConnectionClose()
		}
		if problem != "" && r.refusal == nil {
			r.http.SetConnectionClose()
			refuseRest(r.http)
			r.refusal = badRequest(problem)
		}
		return next(ctx, r)
	}
}

func badRequest(detail string) *apiError {
	return &apiError{status: fasthttp.StatusBadRequest, code: codeBadRequest, detail: detail}
}

// readFraming says what is ambiguous about a request, "" for nothing, and whether its connection ends with it: because
// it came in chunks, or because its sender wants so, which fasthttp understands in small letters only.
func readFraming(header *fasthttp.RequestHeader) (problem string, closes bool) {
	target := header.RequestURI()
	switch protocol := header.Protocol(); {
	case len(protocol) > 5 && protocol[5] != '1':
		return "Only HTTP/1.1 and HTTP/1.0 are spoken here.", true
	case bytes.IndexByte(target, '#') >= 0:
		return "The request target has a fragment.", true
	case len(target) == 1 && target[0] == '*' && string(header.Method()) != fasthttp.MethodOptions:
		return "The request target * is for OPTIONS alone.", true
	}
	return readLines(header.RawHeaders())
}

// readLines reads the raw header lines: of two lengths fasthttp has dropped one by now.
func readLines(lines []byte) (problem string, closes bool) {
	var length, coding bool
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n')
		if end < 1 || lines[end-1] != '\r' {
			return "A header line ends in a bare line feed.", true
		}
		line := lines[:end-1]
		lines = lines[end+1:]
		switch {
		case len(line) == 0:
			continue
		case line[0] == ' ' || line[0] == '\t':
			return "A header line is folded.", true
		}
		switch line[0] | 0x20 {
		case 'c':
			length = length || isField(line, fasthttp.HeaderContentLength)
			closes = closes || isField(line, fasthttp.HeaderConnection) && hasToken(line[len("Connection:"):], "close")
		case 't':
			if !isField(line, fasthttp.HeaderTransferEncoding) {
				continue
			}
			coding, closes = true, true
			if !equalFold(bytes.Trim(line[len("Transfer-Encoding:"):], " \t"), "chunked") {
				return "The only Transfer-Encoding that is read is chunked.", true
			}
		}
	}
	if length && coding {
		return "Content-Length and Transfer-Encoding exclude each other.", true
	}
	return "", closes
}

// isField reports whether a header line is of the field name.
func isField(line []byte, name string) bool {
	return len(line) > len(name) && line[len(name)] == ':' && equalFold(line[:len(name)], name)
}

// hasToken reports whether token is an element of the list.
func hasToken(list []byte, token string) bool {
	for len(list) > 0 {
		var element []byte
		element, list, _ = bytes.Cut(list, []byte{','})
		if equalFold(bytes.Trim(element, " \t"), token) {
			return true
		}
	}
	return false
}

// equalFold compares ASCII without regard to case.
func equalFold(a []byte, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if x, y := a[i], b[i]; x != y && (x|0x20 != y|0x20 || !isLetter(x)) {
			return false
		}
	}
	return true
}
