package httpapi

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of a lane never wait: their descriptors are in non-blocking mode, and they take a few microseconds. They are
// made without telling the scheduler, as the runtime makes its own of epoll: told, it took the processor away from a
// goroutine that makes one after the other, and each time a thread had to be woken up for it.

// readSocket reads what has come.
func readSocket(descriptor int, into []byte) (int, error) {
	n, _, failed := unix.RawSyscall(unix.SYS_READ, uintptr(descriptor), uintptr(unsafe.Pointer(unsafe.SliceData(into))), uintptr(len(into))) //nolint:gosec // audited: the kernel stays within the slice
	return result(n, failed)
}

// writeSocket writes what there is room for.
func writeSocket(descriptor int, from []byte) (int, error) {
	n, _, failed := unix.RawSyscall(unix.SYS_WRITE, uintptr(descriptor), uintptr(unsafe.Pointer(unsafe.SliceData(from))), uintptr(len(from))) //nolint:gosec // audited: the kernel stays within the slice
	return result(n, failed)
}

// pollEvents fills in the events that there are.
func pollEvents(epoll uintptr, events []unix.EpollEvent) (int, error) {
	const atOnce = 0
	n, _, failed := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, epoll, uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), atOnce, 0, 0) //nolint:gosec // audited: the kernel stays within the slice
	return result(n, failed)
}

func result(n uintptr, failed unix.Errno) (int, error) {
	if failed != 0 {
		return 0, failed
	}
	return int(n), nil
}
