package read

import "sync"

// refreshRequest has the keys of the exams that can have changed; allExams stands for all of them.
type refreshRequest map[string]struct{}

const allExams = ""

func (r refreshRequest) has(examKey string) bool {
	_, one := r[examKey]
	_, all := r[allExams]
	return one || all
}

// news has the exams that can have changed and that a pod has not read yet.
type news struct {
	// wake has an element while a request waits.
	wake chan struct{}

	mu sync.Mutex
	// waiting is the request for the next refresh, reading that of the refresh that runs; nil: none.
	waiting, reading refreshRequest
	// listening reports whether all notifications arrive.
	listening bool
}

// add adds an exam to the request that waits for the next refresh.
func (n *news) add(examKey string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addLocked(examKey)
}

func (n *news) addLocked(examKey string) {
	if n.waiting == nil {
		n.waiting = refreshRequest{}
	}
	n.waiting[examKey] = struct{}{}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// listen records that the listener was connected, or lost. A new listener needs a refresh of all exams: it has missed notifications.
func (n *news) listen(connected bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listening = connected
	if connected {
		n.addLocked(allExams)
	}
}

// begin returns the request that waits, for a refresh that ends with end. The request can be empty.
func (n *news) begin() refreshRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.wake:
	default:
	}
	n.reading, n.waiting = n.waiting, nil
	return n.reading
}

// end records that the refresh has read its exams. A refresh that failed has added them again before.
func (n *news) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reading = nil
}

func (n *news) isCurrent(examKey string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listening && !n.waiting.has(examKey) && !n.reading.has(examKey)
}
