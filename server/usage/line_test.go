package usage_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"examprep.dev/server/testkit"
)

// line is a proxy to a database that can lose an answer.
type line struct {
	*testkit.Proxy

	lose atomic.Pointer[string] // name or text of the statement whose next response is lost; nil for none
}

func newLine(t *testing.T, database string) *line {
	t.Helper()
	l := &line{}
	l.Proxy = testkit.StartProxy(t, database, testkit.ProxyOptions{Forward: l.forward})
	return l
}

// forward sends what the client sends to the server, message by message. From the statement on whose response is lost
// the connection is mute, so that no message before it loses its own.
func (l *line) forward(server io.Writer, client io.Reader, mute func()) {
	if err := forwardMessage(server, client, 0, func([]byte) {}); err != nil { // the first has no type
		return
	}
	statements := map[string]string{} // the texts of those that were prepared, by name
	for {
		err := forwardMessage(server, client, 1, func(message []byte) {
			fields := bytes.SplitN(message[messageHead:], []byte{0}, 3)
			lose := l.lose.Load()
			switch message[0] {
			case 'P': // prepares: name and text
				statements[string(fields[0])] = string(fields[1])
			case 'B': // runs: portal and name
				if lose != nil && strings.HasPrefix(statements[string(fields[1])], "-- name: "+*lose+" ") {
					l.lose.Store(nil)
					mute()
				}
			case 'Q': // runs a text
				if lose != nil && string(fields[0]) == *lose {
					l.lose.Store(nil)
					mute()
				}
			}
		})
		if err != nil {
			return
		}
	}
}

// messageHead is how much comes before what a message says: its type and, in four bytes, its length but for the type.
const messageHead = 5

// forwardMessage forwards one message, whose type takes so many bytes, once it was seen whole.
func forwardMessage(server io.Writer, client io.Reader, kind int, see func(message []byte)) error {
	head := make([]byte, kind+4)
	if _, err := io.ReadFull(client, head); err != nil {
		return err
	}
	message := make([]byte, kind+int(binary.BigEndian.Uint32(head[kind:])))
	copy(message, head)
	if _, err := io.ReadFull(client, message[len(head):]); err != nil {
		return err
	}
	see(message)
	_, err := server.Write(message)
	return err
}

// loseAnswer lets a statement reach the database the next time it is run, and nothing come back of it, nor on its
// connection from then on.
func (l *line) loseAnswer(statement string) { l.lose.Store(&statement) }
