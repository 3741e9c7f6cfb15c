// Package process runs servers as children: starts each, waits until it answers, keeps its output in a file of its own,
// starts it again when it dies unasked, and stops all in reverse order.
//
// Three promises hold. Each child has a process group of its own, so that Ctrl-C at a terminal reaches only the
// supervisor, which then stops them in order. Where the system offers it (Linux), the kernel stops them if the
// supervisor itself is killed, so nothing stays behind. A child that dies is reported with the last lines of its log.
//
// It fails with *ExitedError when a child ends before it was ready. It must not import anything of the product.
package process
