package delivery

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"examprep.dev/server/webhooks/delivery/send"
)

func TestBackoffStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		attempt := rapid.IntRange(1, 8).Draw(t, "attempt")
		asked := time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "asked"))
		delay, again := nextRetry(RetryDelays(), attempt, asked)
		if attempt > 5 {
			if again {
				t.Fatal("a sixth retry")
			}
			return
		}
		nominal := 10 * time.Second
		for range attempt - 1 {
			nominal *= 5
		}
		low, high := max(nominal*8/10, min(asked, send.MaxRetryAfter)), max(nominal*12/10, min(asked, send.MaxRetryAfter))
		if !again || delay < low || delay > high {
			t.Fatalf("attempt %d: %s, want %s to %s", attempt, delay, low, high)
		}
	})
}

func TestNextRetryFollowsTheTable(t *testing.T) {
	t.Parallel()
	for failures, c := range map[int]struct {
		asked     time.Duration
		low, high time.Duration
		last      bool
	}{
		1: {0, 8 * time.Second, 12 * time.Second, false},
		2: {30 * time.Second, 40 * time.Second, 60 * time.Second, false},
		3: {10 * time.Minute, 10 * time.Minute, 10 * time.Minute, false},
		4: {48 * time.Hour, time.Hour, time.Hour, false},
		5: {0, 5000 * time.Second, 7500 * time.Second, false},
		6: {0, 0, 0, true},
	} {
		wait, again := nextRetry(RetryDelays(), failures, c.asked)
		if again == c.last || wait < c.low || wait > c.high {
			t.Errorf("after %d failures: %s, %v; want %s to %s", failures, wait, again, c.low, c.high)
		}
	}
}

// TestTheScheduleIsDocumented compares the sentences that receivers read with the table.
func TestTheScheduleIsDocumented(t *testing.T) {
	t.Parallel()
	var seconds, minutes, short []string
	for _, d := range RetryDelays() {
		switch m := int(d.Round(time.Minute) / time.Minute); {
		case d < time.Minute:
			seconds, short = append(seconds, fmt.Sprintf("%d seconds", int(d.Seconds()))), append(short, fmt.Sprintf("%d s", int(d.Seconds())))
		case m < 60:
			minutes, short = append(minutes, fmt.Sprint(m)), append(short, fmt.Sprintf("%d min", m))
		default:
			minutes, short = append(minutes, fmt.Sprint(m)), append(short, fmt.Sprintf("%d h %d min", m/60, m%60))
		}
	}
	and := func(list []string) string {
		return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
	}
	for file, want := range map[string]string{
		"../../../api/openapi/contract.yaml": fmt.Sprintf("up to %d times: after about %s, %s minutes", len(RetryDelays()), strings.Join(seconds, ", "), and(minutes)),
		"../../../docs/webhooks.md":          "after about " + and(short) + ", each ±20 %",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
			t.Errorf("%s does not have %q", file, want)
		}
	}
}
