package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"examprep.dev/server/socket"
)

const (
	// laneEvents is how many events a lane takes from the kernel at once.
	laneEvents = 256
	// laneRounds is how many rounds follow each other at most without a look at what others wait for.
	laneRounds = 16
	// laneStrands is how many idle strands a lane keeps.
	laneStrands = 256
)

// lane serves, from one goroutine, connections that ask for one small document after the other; doc.go says why. It reads
// what has come on any of them, begins to handle each request that is whole and plain (plain.go), and when the gate has
// answered for a batch of them it writes their answers in one go. Whatever else comes, the connection goes to fasthttp for
// good, with the bytes that were read. So nothing here waits for a client: there is no request that is half read.
type lane struct {
	listener *listener
	server   *Server
	// epoll is a descriptor that the runtime's own poller watches: the goroutine that waits for events takes no thread.
	epoll *os.File
	raw   syscall.RawConn
	// nudge is an eventfd among what epoll watches: each write to it is an event.
	nudge int
	ended chan struct{}

	readyMu sync.Mutex
	// ready are strands that were parked and may go on; spare is the memory of the next ones.
	ready, spare []*strand

	// mu is held by whoever runs strands or changes what follows: for a round of events or of answers.
	mu     sync.Mutex
	conns  map[int32]*laneConn
	now    time.Time // when the round began
	done   []*strand // whose answers are to be written at its end
	parked bool      // some request began to wait in it
	idle   []*strand
	closed bool
	buffer []byte
	source bytes.Reader
	reader *bufio.Reader
	writer *bufio.Writer
}

func newLane(s *Server, l *listener) (*lane, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // else os.File would not wait for it by the poller
		_ = unix.Close(epoll)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	one := &lane{
		listener: l, server: s, epoll: os.NewFile(uintptr(epoll), "epoll"), nudge: -1, ended: make(chan struct{}),
		conns: make(map[int32]*laneConn), now: time.Now(),
		// One byte more than a head may have tells those that have more.
		buffer: make([]byte, l.headBytes+1), reader: bufio.NewReaderSize(nil, l.headBytes+1),
		writer: bufio.NewWriterSize(nil, writeBuffer),
	}
	if err := one.prepare(); err != nil {
		_ = one.epoll.Close()
		_ = unix.Close(one.nudge)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return one, nil
}

func (l *lane) prepare() (err error) {
	if l.raw, err = l.epoll.SyscallConn(); err != nil {
		return err
	}
	if l.nudge, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return err
	}
	return l.control(unix.EPOLL_CTL_ADD, l.nudge, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(l.nudge)})
}

// run serves until stop. Should the kernel refuse to tell of events, the lane ends, and fasthttp serves who comes.
func (l *lane) run() {
	defer close(l.ended)
	events := make([]unix.EpollEvent, laneEvents)
	for rounds, parked := 0, false; ; rounds++ {
		n, err := l.wait(events, parked || rounds%laneRounds == 0)
		if err != nil {
			if first := l.cut(); first {
				l.server.logger.Error("a lane ended", "error", err)
			}
			return
		}
		parked = l.round(events[:n])
	}
}

// wait returns when there are events; its error is that of a lane that was stopped. If after is set, it lets all others run
// first, and the runtime look for what they wait for: a lane that always found something to do would keep the gate's answers
// from being noticed.
func (l *lane) wait(events []unix.EpollEvent, after bool) (n int, err error) {
	failure := l.raw.Read(func(descriptor uintptr) bool {
		if after {
			after = false
			err = socket.Raise(uintptr(l.nudge))
			return err != nil
		}
		n, err = socket.Events(descriptor, events)
		return n > 0 || err != nil
	})
	return n, errors.Join(failure, err)
}

// round does what events say can be done, and reports whether requests began to wait in it.
func (l *lane) round(events []unix.EpollEvent) (parked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now, l.parked = time.Now(), false
	for i := range events {
		if c := l.conns[events[i].Fd]; c != nil {
			l.handle(c, events[i].Events)
		}
	}
	l.writeAnswers()
	return l.parked
}

func (l *lane) handle(c *laneConn, events uint32) {
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.hungUp = true
	}
	switch {
	case c.strand != nil:
		c.more = true
	case len(c.unsent) > 0:
		c.more = c.more || events&^unix.EPOLLOUT != 0
		l.sendRest(c)
	default:
		l.receive(c)
	}
}

// receive reads what has come, and begins with it if it is one plain request.
func (l *lane) receive(c *laneConn) {
	n, err := socket.Read(uintptr(c.descriptor), l.buffer)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return
	case err != nil || n == 0:
		l.close(c)
		return
	}
	head := l.buffer[:n]
	if n == len(l.buffer) || c.hungUp || !isPlainGet(head) {
		l.handOver(c, head)
		return
	}
	s := l.takeStrand()
	l.source.Reset(head)
	l.reader.Reset(&l.source)
	if err := s.http.Request.Header.Read(l.reader); err != nil || !isPlainHeader(&s.http.Request.Header) {
		l.giveStrand(s)
		l.handOver(c, head)
		return
	}
	s.begin(c)
	l.resume(s)
}

// resume runs a strand until its request is answered or has to wait.
func (l *lane) resume(s *strand) {
	switch stage, _ := s.next(); stage {
	case answered:
		l.done = append(l.done, s)
	case parked:
		l.parked = true
	case leaving:
		go l.finishAlone(s)
	}
}

// finishAlone runs a strand whose request may block to its end; that is bounded as it is for any other request.
func (l *lane) finishAlone(s *strand) {
	_, _ = s.next()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = time.Now()
	l.done = append(l.done, s)
	l.writeAnswers()
}

// wake has a strand that is parked go on.
func (l *lane) wake(s *strand) {
	l.readyMu.Lock()
	defer l.readyMu.Unlock()
	l.ready = append(l.ready, s)
	if len(l.ready) == 1 {
		go l.resumeReady()
	}
}

// resumeReady goes on with all strands that may, and writes what comes of it.
func (l *lane) resumeReady() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readyMu.Lock()
	ready := l.ready
	l.ready = l.spare[:0]
	l.readyMu.Unlock()
	l.now = time.Now()
	for _, s := range ready {
		l.resume(s)
	}
	clear(ready)
	l.spare = ready
	l.writeAnswers()
}

// writeAnswers sends the answers of a round one after the other: their clients are awake then, and a system call that finds
// them so takes less than one that wakes them up. What comes of it may be more answers.
func (l *lane) writeAnswers() {
	for at := 0; at < len(l.done); at++ { //nolint:intrange // it grows
		s := l.done[at]
		c := s.conn
		l.write(&s.http.Response, c)
		l.giveStrand(s)
		c.strand, c.own.within, c.served, c.since = nil, nil, true, l.now
		l.goOn(c)
	}
	clear(l.done)
	l.done = l.done[:0]
}

// write sends an answer to c, which keeps what is left. All go through one buffer: it stays in the processor's cache.
func (l *lane) write(answer *fasthttp.Response, c *laneConn) {
	c.closing = answer.ConnectionClose()
	c.lasting = !answer.IsBodyStream() // bodies are set, never filled (respond.go)
	l.writer.Reset(c)
	_ = answer.Write(l.writer) // which never fails: laneConn.Write does not, and no handler streams
	_ = l.writer.Flush()
}

// goOn does what is next after an answer.
func (l *lane) goOn(c *laneConn) {
	switch {
	case c.broken != nil || l.closed:
		l.close(c)
	case c.closing:
		l.end(c)
	case len(c.unsent) == 0 && c.more:
		c.more = false
		l.receive(c)
	}
}

// sendRest sends more of an answer that the kernel had no room for. The time for it goes on: who reads a byte now and then
// is not to keep an answer for ever.
func (l *lane) sendRest(c *laneConn) {
	if c.unsent = c.unsent[c.send(c.unsent):]; len(c.unsent) == 0 {
		c.unsent, c.since = nil, l.now
	}
	l.goOn(c)
}

// take makes a connection one of the lane's, if it can be.
func (l *lane) take(own *conn) bool {
	descriptor, ok := ownDescriptor(own.Conn)
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	const events = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	watched := unix.EpollEvent{Events: events, Fd: int32(descriptor)}
	if l.closed || l.control(unix.EPOLL_CTL_ADD, descriptor, &watched) != nil {
		_ = unix.Close(descriptor)
		return false
	}
	l.conns[watched.Fd] = &laneConn{own: own, descriptor: descriptor, since: time.Now()}
	_ = own.Conn.Close() // Go's poller must not wake for it too
	return true
}

// control changes what epoll watches.
func (l *lane) control(operation, descriptor int, event *unix.EpollEvent) (err error) {
	failure := l.raw.Control(func(epoll uintptr) {
		err = unix.EpollCtl(int(epoll), operation, descriptor, event)
	})
	return errors.Join(failure, err)
}

// close ends a connection that has no request in hand.
func (l *lane) close(c *laneConn) {
	delete(l.conns, int32(c.descriptor))
	_ = unix.Close(c.descriptor) // and epoll forgets it
	l.listener.remove(c.own)
}

// release makes a connection an ordinary one again, for others to serve; nil, and closed, if that fails.
func (l *lane) release(c *laneConn) net.Conn {
	delete(l.conns, int32(c.descriptor))
	_ = l.control(unix.EPOLL_CTL_DEL, c.descriptor, nil)
	file := os.NewFile(uintptr(c.descriptor), "connection")
	inner, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		l.listener.remove(c.own)
		return nil
	}
	l.listener.replace(c.own, inner)
	return inner
}

// handOver gives a connection to fasthttp, with what was read of it.
func (l *lane) handOver(c *laneConn, read []byte) {
	c.own.ahead = bytes.Clone(read)
	if l.release(c) == nil {
		return
	}
	go func() { // which ends as those of fasthttp's own workers do
		if err := l.server.http.ServeConn(c.own); err != nil {
			l.server.http.Logger.Printf("%v", err)
		}
	}()
}

// end sends a last answer, for which the client may take its time, and closes the connection.
func (l *lane) end(c *laneConn) {
	if l.release(c) == nil {
		return
	}
	c.own.busy.Store(true) // until it is closed: a server that stops does not hurry it
	go func() {
		_, _ = c.own.Write(c.unsent)
		_ = c.own.Close()
	}()
}

// expire closes connections that have waited for too long: for their first request, for the next one, or for room. Whoever
// has sent a request meanwhile is to get an answer.
func (l *lane) expire(read, idle, write time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = time.Now()
	for number, c := range l.conns {
		limit := idle
		switch {
		case c.strand != nil:
			continue
		case len(c.unsent) > 0:
			limit = write
		case !c.served:
			limit = read
		}
		if l.now.Sub(c.since) < limit {
			continue
		}
		if len(c.unsent) == 0 {
			l.receive(c)
		}
		if l.conns[number] == c && c.strand == nil {
			l.close(c)
		}
	}
	l.writeAnswers()
}

// cut ends every connection, those with a request in hand when it is answered, and takes no more. It reports whether it is the
// first to do so.
func (l *lane) cut() (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, l.closed = !l.closed, true
	for _, c := range l.conns {
		if c.strand != nil {
			_ = unix.Shutdown(c.descriptor, unix.SHUT_RDWR)
			continue
		}
		l.close(c)
	}
	return first
}

// stop ends the lane's goroutine and its idle strands. Strands in hand end with their requests.
func (l *lane) stop() {
	l.cut()
	_ = l.epoll.Close()
	<-l.ended
	_ = unix.Close(l.nudge)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.idle {
		s.stop()
	}
	l.idle = nil
}

// takeStrand returns a strand with nothing in hand.
func (l *lane) takeStrand() *strand {
	if n := len(l.idle); n > 0 {
		s := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return s
	}
	return newStrand(l)
}

// giveStrand takes a strand back.
func (l *lane) giveStrand(s *strand) {
	s.reset()
	if l.closed || len(l.idle) == laneStrands {
		s.stop()
		return
	}
	l.idle = append(l.idle, s)
}
