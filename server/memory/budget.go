// Package memory divides the memory of an API pod by its limit, so that all its caches and buffers fit together
// (docs/decisions/0005-memory-by-limit.md).
package memory

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// The parts of the memory, in percent of the limit. The rest is for the overviews of all exams, requests under way and garbage.
const (
	directoryShare   = 15
	cacheShare       = 25
	compressedShare  = 5
	bodyShare        = 12
	connectionShare  = 23
	maxShare         = 80 // of all parts
	cgroupShare      = 85 // of the cgroup's limit; the kernel also counts the pages of the program file, about 55 MiB
	defaultLimit     = 512 << 20
	connectionBytes  = 25 << 10 // of an idle connection: two buffers, a context and a stack
	fewestCacheBytes = 5 << 20  // less holds no large paper
	fewestBodyBytes  = 18 << 20 // less has no room for a submission of 1 MiB in one client's share
	most             = 1 << 20  // MiB or connections; more is a mistake in the unit
)

// Overrides are sizes that are not derived from the limit; 0 derives. Each is named like its flag.
type Overrides struct {
	CacheMiB, KeyDirectoryMiB, CompressedMiB, BodyMiB, MaxConnections uint
}

// Budget is the divided memory. Sizes are in bytes.
type Budget struct {
	limit  int64
	source string

	Directory, Cache, Compressed, Bodies int64
	// Connections is a number.
	Connections int
}

// Divide derives the parts from a limit, which source names. Its errors name flags.
func (o Overrides) Divide(limit int64, source string) (Budget, error) {
	b := Budget{limit: limit, source: source}
	for _, part := range []struct {
		name  string
		given uint
		share int64
		size  *int64
	}{
		{"key-directory-mib", o.KeyDirectoryMiB, directoryShare, &b.Directory},
		{"cache-mib", o.CacheMiB, cacheShare, &b.Cache},
		{"compressed-mib", o.CompressedMiB, compressedShare, &b.Compressed},
		{"body-mib", o.BodyMiB, bodyShare, &b.Bodies},
	} {
		if part.given > most {
			return b, fmt.Errorf("--%s: must be at most %d", part.name, most)
		}
		if *part.size = int64(part.given) << 20; part.given == 0 {
			*part.size = limit / 100 * part.share
		}
	}
	if b.Cache < fewestCacheBytes {
		return b, fmt.Errorf("--cache-mib: must be at least %d", fewestCacheBytes>>20)
	}
	if b.Bodies < fewestBodyBytes {
		return b, fmt.Errorf("--body-mib: must be at least %d", fewestBodyBytes>>20)
	}
	if o.MaxConnections > most {
		return b, fmt.Errorf("--max-connections: must be at most %d", most)
	}
	if b.Connections = int(o.MaxConnections); b.Connections == 0 {
		b.Connections = int(max(limit/100*connectionShare/connectionBytes, 1))
	}
	if sum := b.sum(); sum > limit/100*maxShare {
		return b, fmt.Errorf("the memory for keys, caches, request bodies and connections is %d MiB, more than %d %% of the limit of %d MiB (%s): "+
			"lower --key-directory-mib, --cache-mib, --compressed-mib, --body-mib or --max-connections, or raise the limit",
			sum>>20, maxShare, limit>>20, source)
	}
	return b, nil
}

func (b *Budget) sum() int64 {
	return b.Directory + b.Cache + b.Compressed + b.Bodies + int64(b.Connections)*connectionBytes
}

// Log logs all parts.
func (b *Budget) Log(logger *slog.Logger) {
	logger.Info("memory", "limit_mib", b.limit>>20, "source", b.source, "key_directory_mib", b.Directory>>20, "cache_mib", b.Cache>>20,
		"compressed_mib", b.Compressed>>20, "body_mib", b.Bodies>>20, "max_connections", b.Connections)
}

// Limit returns GOMEMLIMIT, else 85 % of the cgroup's limit, else 512 MiB, and names its source. The collector keeps to this part of
// the cgroup's limit too.
func Limit() (limit int64, source string) { return limitOf(os.ReadFile) }

func limitOf(readFile func(string) ([]byte, error)) (limit int64, source string) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit, "GOMEMLIMIT"
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} { // version 2, 1
		text, err := readFile(file)
		if err != nil {
			continue
		}
		const unlimited = 1 << 50 // version 1 writes a large number
		if bytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bytes < unlimited {
			limit = bytes / 100 * cgroupShare
			debug.SetMemoryLimit(limit)
			return limit, "cgroup"
		}
	}
	return defaultLimit, "default"
}
