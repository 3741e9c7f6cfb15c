package httpapi

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// plainStart begins every request that a lane serves.
var plainStart = []byte(fasthttp.MethodGet + " " + examPaths)

// isPlainGet reports whether text is one whole request for something of an exam, of which nobody can make anything else: a
// GET of a target without a character that would have to be thought about. Its header is for isPlainHeader.
func isPlainGet(text []byte) bool {
	if !bytes.HasPrefix(text, plainStart) || bytes.Index(text, headEnd) != len(text)-len(headEnd) {
		return false
	}
	for i, c := range text[len(plainStart):] {
		switch {
		case c == ' ':
			return bytes.HasPrefix(text[len(plainStart)+i:], []byte(" HTTP/1.1\r\n"))
		case isLetter(c), c >= '0' && c <= '9':
		case c == '/', c == '-', c == '_', c == '.', c == '~', c == '?', c == '=', c == '&', c == '%', c == '+', c == ',':
		default:
			return false
		}
	}
	return false
}

// isPlainHeader reports whether nothing is to be done about a request but to answer it: it has no body, expects nothing,
// keeps its connection, and says whom it asks in a way that fasthttp takes without looking closer.
func isPlainHeader(header *fasthttp.RequestHeader) bool {
	return header.ContentLength() == noBody && !header.ConnectionClose() && header.PeekCanonical(fieldExpect) == nil &&
		isPlainHost(header.Host())
}

// isPlainHost reports whether text is a name or an IPv4 address, perhaps with a port.
func isPlainHost(text []byte) bool {
	name, port, _ := bytes.Cut(text, []byte{':'})
	for _, c := range name {
		if !isLetter(c) && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	for _, c := range port {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(name) > 0
}
