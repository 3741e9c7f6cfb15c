package httpapi

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestRequestIDIsTheCallersOrAnew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		presented string
		kept      bool
	}{
		{"a", true},
		{"Ab9._-", true},
		{strings.Repeat("x", 128), true},
		{"", false},
		{strings.Repeat("x", 129), false},
		{"a b", false},
		{"a/b", false},
		{"é", false},
		{"a@", false},
		{"[", false},
	} {
		got := string(appendRequestID(nil, []byte(c.presented)))
		if c.kept {
			if got != c.presented {
				t.Errorf("%q became %q", c.presented, got)
			}
			continue
		}
		if id, err := uuid.Parse(got); err != nil || id.Version() != 7 {
			t.Errorf("%q became %q, want a new UUIDv7", c.presented, got)
		}
	}
}
