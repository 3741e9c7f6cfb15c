package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

const (
	portsFile = "ports.json"
	// Ports are taken from below the range that systems give to outgoing connections (32768 and up on Linux), so that a
	// port does not get lost to one of those while the environment is down.
	lowestPort, highestPort = 20000, 32000
	portTries               = 200
)

// Ports gives names loopback ports that are free now, each name the one it had at the last run where that is still free.
type Ports struct {
	dir   Dir
	known map[string]int
	given map[int]bool
}

// OpenPorts reads which ports were used last.
func (d Dir) OpenPorts() (*Ports, error) {
	p := &Ports{dir: d, known: make(map[string]int), given: make(map[int]bool)}
	text, err := os.ReadFile(d.Path(portsFile))
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the ports of the last run: %w", err)
	}
	if err := json.Unmarshal(text, &p.known); err != nil {
		p.known = make(map[string]int) // ports are cheap to choose again
	}
	return p, nil
}

// Address returns 127.0.0.1 with the port of that name.
func (p *Ports) Address(ctx context.Context, name string) (string, error) {
	port, known := p.known[name]
	for range portTries {
		if known && !p.given[port] && free(ctx, port) {
			p.known[name], p.given[port] = port, true
			return address(port), p.save()
		}
		port, known = lowestPort+rand.IntN(highestPort-lowestPort), true
	}
	return "", fmt.Errorf("no free loopback port between %d and %d", lowestPort, highestPort)
}

func (p *Ports) save() error {
	text, err := json.MarshalIndent(p.known, "", "  ")
	if err != nil {
		return fmt.Errorf("remember the ports: %w", err)
	}
	return p.dir.WriteFile(portsFile, append(text, '\n'), 0o644)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// free reports whether no process listens on the port, on the loopback address or on all addresses.
func free(ctx context.Context, port int) bool {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
