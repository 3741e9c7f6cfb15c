package httpapi

import (
	"errors"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"examprep.dev/server/socket"
)

// laneConn is a connection as its lane has it: a descriptor of its own that Go's network poller does not know.
type laneConn struct {
	own        *conn
	descriptor int
	// strand serves the request in hand; nil: there is none.
	strand *strand
	// more says that something came meanwhile.
	more bool
	// hungUp says that the client will send nothing more.
	hungUp bool
	served bool
	// closing says that the connection ends with the answer in hand.
	closing bool
	// lasting says that the body of the answer in hand stays as it is.
	lasting bool
	// unsent is the part of an answer that the kernel had no room for; of one that closes the connection all of it.
	unsent []byte
	broken error
	// since is when what the connection waits for now began: the next request, or room for the answer.
	since time.Time
}

// Write sends what there is room for, and keeps the rest. It is what a lane writes to, and never fails: a connection that is
// broken is closed when its request is answered.
func (c *laneConn) Write(p []byte) (int, error) {
	sent := 0
	if !c.closing && len(c.unsent) == 0 {
		sent = c.send(p)
	}
	if c.broken == nil && sent < len(p) {
		c.keep(p[sent:], len(p) > writeBuffer)
	}
	return len(p), nil
}

// keep puts aside what is left of an answer. Large is what was the body itself: the lane's buffer is smaller.
func (c *laneConn) keep(rest []byte, large bool) {
	if c.lasting && large && len(c.unsent) == 0 {
		c.unsent = slices.Clip(rest)
		return
	}
	c.unsent = append(c.unsent, rest...)
}

// send returns how much of p there was room for.
func (c *laneConn) send(p []byte) (sent int) {
	for sent < len(p) && c.broken == nil {
		n, err := socket.Write(uintptr(c.descriptor), p[sent:])
		sent += n
		switch {
		case errors.Is(err, unix.EAGAIN):
			return sent
		case err != nil:
			c.broken = err
		}
	}
	return sent
}

// ownDescriptor returns a descriptor of a TCP connection beside the one that it has.
func ownDescriptor(inner net.Conn) (descriptor int, ok bool) {
	tcp, ok := inner.(*net.TCPConn)
	if !ok {
		return 0, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, false
	}
	failure := raw.Control(func(of uintptr) {
		descriptor, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0)
	})
	return descriptor, failure == nil && err == nil
}
