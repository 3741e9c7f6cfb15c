//go:build !linux

package httpapi

// lanes are for Linux: they live on epoll. Elsewhere fasthttp serves all connections.
type lanes struct{}

func openLanes(*Server, *listener) *lanes { return &lanes{} }

func (*lanes) take(*conn) bool { return false }

func (*lanes) expireIdle() {}

func (*lanes) cut() {}

func (*lanes) stop() {}
