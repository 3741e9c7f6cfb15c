package gate

import "context"

// Parker is a request that shares its goroutine with others, and so must not block it. [Gate.Check] looks for one in its
// context; a request without one waits in its own goroutine.
type Parker interface {
	// Park lets the others run until Wake was called.
	Park()
	// Wake ends a Park, also one that is about to begin. Any goroutine may call it, once for each Park; it does not wait.
	Wake()
	// Leave takes the request to a goroutine of its own, where it may block. Its context has no Parker from then on.
	Leave()
}

// ParkerKey is where a context has its Parker, if any.
type ParkerKey struct{}

// parkerOf returns the Parker of a context, nil if it has none.
func parkerOf(ctx context.Context) Parker {
	parker, _ := ctx.Value(ParkerKey{}).(Parker)
	return parker
}

// mayBlock is called before a request waits for anything but an answer of Redis.
func mayBlock(ctx context.Context) {
	if parker := parkerOf(ctx); parker != nil {
		parker.Leave()
	}
}
