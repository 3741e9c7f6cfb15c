//go:build !linux

package socket

import "net"

// Conn returns conn.
func Conn(conn net.Conn) net.Conn { return conn }
