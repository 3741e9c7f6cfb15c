// Package wire has what the HTTP interface adds to fasthttp's connections: limits with responses in JSON, deadlines, a limit for
// the bytes of one request, checks of framing, and addresses behind proxies.
//
// fasthttp calls [Listener.Accept], [TrackState] and [ReadHeader]. A connection is busy from the first byte of a request to the
// end of its response, so a server that stops knows which connections are idle.
package wire
