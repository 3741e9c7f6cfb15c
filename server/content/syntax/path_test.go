package syntax

import (
	"testing"

	"examprep.dev/server/testkit/check"
)

func TestPathsSurvivePrinting(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"spec", "spec.papers[2].questions[14].answer", "data[questions.jsonl][3].options.A", "[0].number"} {
		check.Equal(t, ParsePath(text).String(), text, "a path, parsed and written")
	}
}
