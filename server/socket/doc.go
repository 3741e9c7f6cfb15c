// Package socket makes the system calls of busy connections without telling Go's scheduler, for whoever makes tens of
// thousands of them a second: the lanes of httpapi and the gate's connections to Redis.
//
// A call in non-blocking mode takes a few microseconds and never waits. Told of it all the same, the scheduler wakes its
// monitor for the first call after each pause, which then looks twenty thousand times a second whether a call has got
// stuck, and takes the processor away from a goroutine that makes one call after the other. On a pod with one processor
// that was a tenth of all its time. The runtime makes its own calls of epoll like this. The price: the collector waits for
// a call that is under way, a few microseconds. Sockets are read and written by recv and send: read and write make a
// detour through the kernel's files, which costs the API a fiftieth of its time.
//
// Where it is not Linux, [Conn] changes nothing. It imports nothing of ours.
package socket
