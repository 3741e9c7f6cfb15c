//go:build !linux

package main

import "syscall"

// dieWithParent returns nothing special: only Linux kills a child when its parent ends.
func dieWithParent() *syscall.SysProcAttr { return nil }
