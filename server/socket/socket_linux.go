package socket

import (
	"errors"
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads what has come on a socket in non-blocking mode; unix.EAGAIN if nothing has, and 0 without an error at the end.
func Read(descriptor uintptr, into []byte) (int, error) {
	return again(func() (uintptr, unix.Errno) {
		n, _, failed := unix.RawSyscall6(unix.SYS_RECVFROM, descriptor, uintptr(unsafe.Pointer(unsafe.SliceData(into))), uintptr(len(into)), 0, 0, 0) //nolint:gosec // audited: the kernel stays within the slice
		return n, failed
	})
}

// Write writes what there is room for to a socket in non-blocking mode; unix.EAGAIN if there is none.
func Write(descriptor uintptr, from []byte) (int, error) {
	return again(func() (uintptr, unix.Errno) {
		n, _, failed := unix.RawSyscall6(unix.SYS_SENDTO, descriptor, uintptr(unsafe.Pointer(unsafe.SliceData(from))), uintptr(len(from)), unix.MSG_NOSIGNAL, 0, 0) //nolint:gosec // audited: the kernel stays within the slice
		return n, failed
	})
}

// Raise adds one to an eventfd in non-blocking mode: whoever watches it has an event.
func Raise(eventfd uintptr) error {
	one := uint64(1)
	_, err := again(func() (uintptr, unix.Errno) {
		n, _, failed := unix.RawSyscall(unix.SYS_WRITE, eventfd, uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one)) //nolint:gosec // audited: the kernel reads those eight bytes
		return n, failed
	})
	return err
}

// Events fills in the events that an epoll descriptor has; it does not wait for any.
func Events(epoll uintptr, events []unix.EpollEvent) (int, error) {
	return again(func() (uintptr, unix.Errno) {
		const atOnce = 0
		n, _, failed := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, epoll, uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), atOnce, 0, 0) //nolint:gosec // audited: the kernel stays within the slice
		return n, failed
	})
}

// again makes a call until no signal interrupts it.
func again(call func() (uintptr, unix.Errno)) (int, error) {
	for {
		n, failed := call()
		switch failed {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, failed
		}
	}
}

// Conn returns a connection whose Read and Write make their calls like this; conn itself if that cannot be done with it,
// as with TLS. Deadlines and all else are those of conn.
func Conn(conn net.Conn) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return conn
	}
	return &quiet{TCPConn: tcp, raw: raw}
}

type quiet struct {
	*net.TCPConn

	raw syscall.RawConn
}

// Read is net.Conn's.
func (q *quiet) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	failure := q.raw.Read(func(descriptor uintptr) bool {
		n, err = Read(descriptor, p)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case failure != nil:
		return 0, failure
	case err != nil:
		return 0, q.failed("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write is net.Conn's.
func (q *quiet) Write(p []byte) (written int, err error) {
	failure := q.raw.Write(func(descriptor uintptr) bool {
		for written < len(p) && err == nil {
			var n int
			n, err = Write(descriptor, p[written:])
			written += n
		}
		if errors.Is(err, unix.EAGAIN) {
			err = nil
			return false
		}
		return true
	})
	switch {
	case failure != nil:
		return written, failure
	case err != nil:
		return written, q.failed("write", err)
	}
	return written, nil
}

// failed is an error as package net has them.
func (q *quiet) failed(operation string, err error) error {
	return &net.OpError{Op: operation, Net: "tcp", Source: q.LocalAddr(), Addr: q.RemoteAddr(), Err: err}
}
