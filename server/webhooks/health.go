package webhooks

import "time"

// DisableAfter is how long an endpoint may fail without a success before it is disabled. Its owner is warned when half
// of that time has passed.
const DisableAfter = 5 * 24 * time.Hour

// disablesAt is from when on an endpoint's next failure disables it; nil for one that is not on its way there.
func disablesAt(status string, failingSince *time.Time) *time.Time {
	if status != StatusEnabled || failingSince == nil {
		return nil
	}
	at := failingSince.Add(DisableAfter)
	return &at
}

// statusOf is an HTTP status as it is stored: NULL, 0 here, where no answer came.
func statusOf(stored *int32) int {
	if stored == nil {
		return 0
	}
	return int(*stored)
}
