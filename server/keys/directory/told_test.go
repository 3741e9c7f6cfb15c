package directory

import (
	"testing"

	"examprep.dev/server/testkit/check"
)

// TestOnlyTheSameNumberIsTold: Redis compares numbers as doubles, and may return a lower one that looks the same.
func TestOnlyTheSameNumberIsTold(t *testing.T) {
	d, c := New(Config{}, nil), newContents(1)
	defer d.Close()
	for stored, want := range map[int64]int64{6: 0, 8: 0, 7: 7} {
		c.told.Store(0)
		d.confirm(c, 7, stored)
		check.Equal(t, c.told.Load(), want, "told when Redis has %d", stored)
	}
	check.Equal(t, d.higher.Load(), 8, "higher number")
}
