//go:build !linux

package process

import "syscall"

// dieWithParent does nothing where the kernel has no such promise.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
