package ports

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func reserve() (port int, release func(), err error) {
	descriptor, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	release = func() { _ = syscall.Close(descriptor) }
	err = errors.Join(
		os.NewSyscallError("setsockopt", syscall.SetsockoptInt(descriptor, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)),
		os.NewSyscallError("bind", syscall.Bind(descriptor, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})),
	)
	if err != nil {
		release()
		return 0, nil, err
	}
	name, err := syscall.Getsockname(descriptor)
	if err != nil {
		release()
		return 0, nil, os.NewSyscallError("getsockname", err)
	}
	address, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		release()
		return 0, nil, fmt.Errorf("the socket has the address %v", name)
	}
	return address.Port, release, nil
}
