package memory

import (
	"io/fs"
	"math"
	"runtime/debug"
	"strings"
	"testing"
)

func TestMemoryIsDividedByTheLimitUnlessAFlagOverrides(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		flags   Overrides
		limit   int64
		want    Budget // without limit and source
		refused string
	}{
		"of the chart's pod": {limit: 435 * mib, want: Budget{
			Directory: 435 * mib / 100 * 15, Cache: 435 * mib / 100 * 25, Compressed: 435 * mib / 100 * 5, Bodies: 435 * mib / 100 * 12,
			Connections: 435 * mib / 100 * 23 / connectionBytes,
		}},
		"with every flag": {
			flags: Overrides{CacheMiB: 10, KeyDirectoryMiB: 20, CompressedMiB: 1, BodyMiB: 18, MaxConnections: 100}, limit: 100 * mib,
			want: Budget{Directory: 20 * mib, Cache: 10 * mib, Compressed: mib, Bodies: 18 * mib, Connections: 100},
		},
		"a part too large":        {flags: Overrides{CacheMiB: 400}, limit: 460 * mib, refused: "more than 80 % of the limit of 460 MiB"},
		"a part a little large":   {flags: Overrides{CacheMiB: 150}, limit: 460 * mib, refused: "more than 80 % of the limit of 460 MiB"},
		"an absurd number":        {flags: Overrides{MaxConnections: 1 << 62}, limit: 460 * mib, refused: "--max-connections"},
		"too many connections":    {flags: Overrides{MaxConnections: 20_000}, limit: 460 * mib, refused: "--max-connections"},
		"a mistake in the unit":   {flags: Overrides{BodyMiB: 64 << 20}, limit: 460 * mib, refused: "--body-mib"},
		"a cache without a paper": {flags: Overrides{CacheMiB: 4}, limit: 460 * mib, refused: "--cache-mib"},
		"too few bodies":          {flags: Overrides{BodyMiB: 17}, limit: 460 * mib, refused: "--body-mib: must be at least 18"},
		"a limit that is tiny":    {limit: 8 * mib, refused: "--cache-mib"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.flags.Divide(c.limit, "test")
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("got %v, want an error with %q", err, c.refused)
				}
				return
			}
			c.want.limit, c.want.source = c.limit, "test"
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestMemoryLimitIsOfGoOfTheCgroupOrTheDefault(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for name, c := range map[string]struct {
		goLimit int64
		files   map[string]string
		limit   int64
		source  string
	}{
		"GOMEMLIMIT":   {goLimit: 123 << 20, files: map[string]string{"/sys/fs/cgroup/memory.max": "1000\n"}, limit: 123 << 20, source: "GOMEMLIMIT"},
		"cgroup 2":     {goLimit: math.MaxInt64, files: map[string]string{"/sys/fs/cgroup/memory.max": "1000000000\n"}, limit: 850_000_000, source: "cgroup"},
		"cgroup 1":     {goLimit: math.MaxInt64, files: map[string]string{"/sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000000\n"}, limit: 1_700_000_000, source: "cgroup"},
		"unlimited, 2": {goLimit: math.MaxInt64, files: map[string]string{"/sys/fs/cgroup/memory.max": "max\n"}, limit: defaultLimit, source: "default"},
		"unlimited, 1": {goLimit: math.MaxInt64, files: map[string]string{"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, limit: defaultLimit, source: "default"},
		"no cgroup":    {goLimit: math.MaxInt64, limit: defaultLimit, source: "default"},
		"malformed":    {goLimit: math.MaxInt64, files: map[string]string{"/sys/fs/cgroup/memory.max": ""}, limit: defaultLimit, source: "default"},
	} {
		debug.SetMemoryLimit(c.goLimit)
		limit, source := limitOf(func(name string) ([]byte, error) {
			text, ok := c.files[name]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		})
		if limit != c.limit || source != c.source {
			t.Errorf("%s: got %d of %s, want %d of %s", name, limit, source, c.limit, c.source)
		}
		if c.source == "cgroup" && debug.SetMemoryLimit(-1) != c.limit {
			t.Errorf("%s: the collector's limit is %d", name, debug.SetMemoryLimit(-1))
		}
	}
}
