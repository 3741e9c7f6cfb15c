package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// stopLook is how often a loop without events checks whether it must stop.
const stopLook = 100 * time.Millisecond

func newLoop(l load, duration time.Duration) (*loop, error) {
	p := &loop{load: l, epoll: -1}
	if err := p.open(); err != nil {
		p.close()
		return nil, err
	}
	p.began = time.Now()
	p.until = p.began.Add(duration)
	return p, nil
}

func (p *loop) open() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	for i := range p.width() {
		c := &client{number: i, received: make([]byte, 0, answerRoom)}
		if c.descriptor, err = connect(p.addresses[i%len(p.addresses)]); err != nil {
			return err
		}
		p.clients = append(p.clients, c)
		if err := p.watch(c.descriptor, i, unix.EPOLLIN|unix.EPOLLOUT); err != nil {
			return err
		}
	}
	p.asking = len(p.clients)
	return nil
}

// watch makes epoll report changes of a descriptor.
func (p *loop) watch(descriptor, number int, events uint32) error {
	event := &unix.EpollEvent{Events: events | unix.EPOLLET, Fd: int32(number)}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, descriptor, event); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// connect opens a connection to an address of this machine.
func connect(address string) (descriptor int, err error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Is4() {
		return -1, fmt.Errorf("address %q is not one of IPv4 with a port", address)
	}
	descriptor, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	err = errors.Join(
		unix.Connect(descriptor, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}),
		unix.SetsockoptInt(descriptor, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetNonblock(descriptor, true),
	)
	if err != nil {
		_ = unix.Close(descriptor)
		return -1, fmt.Errorf("connect to %s: %w", address, err)
	}
	return descriptor, nil
}

func (p *loop) close() {
	for _, c := range p.clients {
		if !c.ended {
			_ = unix.Close(c.descriptor)
		}
	}
	if p.epoll >= 0 {
		_ = unix.Close(p.epoll)
	}
}

// run asks until no connection has more to ask.
func (p *loop) run(ctx context.Context) error {
	events := make([]unix.EpollEvent, len(p.clients))
	if err := p.sendDue(); err != nil {
		return err
	}
	for p.asking > 0 {
		n, err := p.await(events)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, event := range events[:max(n, 0)] {
			if err := p.serve(p.clients[event.Fd], event.Events); err != nil {
				return err
			}
		}
		if p.rate > 0 {
			if err := p.sendDue(); err != nil {
				return err
			}
		}
	}
	return nil
}

// await returns how many events there are once there are some, or a request is due. Its time is finer than the
// milliseconds of epoll_wait, and it needs no timer: setting one and reading it took a third of what the load costs.
func (p *loop) await(events []unix.EpollEvent) (n int, err error) {
	if p.next.IsZero() {
		return unix.EpollWait(p.epoll, events, int(stopLook.Milliseconds()))
	}
	rest := unix.NsecToTimespec(min(max(0, time.Until(p.next)), stopLook).Nanoseconds())
	if _, err := unix.Ppoll([]unix.PollFd{{Fd: int32(p.epoll), Events: unix.POLLIN}}, &rest, nil); err != nil {
		return 0, err
	}
	return unix.EpollWait(p.epoll, events, 0)
}

// serve does what an event says can be done on a connection.
func (p *loop) serve(c *client, events uint32) error {
	if c.ended {
		return nil
	}
	if events&unix.EPOLLOUT != 0 {
		if err := c.flush(); err != nil {
			return err
		}
	}
	if events&^unix.EPOLLOUT == 0 {
		return nil
	}
	return p.receive(c)
}
