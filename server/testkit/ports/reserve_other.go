//go:build !linux

package ports

import (
	"fmt"
	"net"
)

func reserve() (port int, release func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	defer listener.Close()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, nil, fmt.Errorf("the listener has the address %v", listener.Addr())
	}
	return address.Port, func() {}, nil
}
