package syntax

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"examprep.dev/server/testkit/check"
)

func TestDocumentsOfFilesHaveALimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64<<10)
	for name, test := range map[string]struct{ text, want string }{
		"aliases":        {"kind: List\nitems:\n- &a " + long + "\n" + strings.Repeat("- *a\n", 2000), "line 1036: with aliases expanded, has more than 67108864 bytes as JSON: split it"},
		"values in JSON": {`{"a":[` + strings.Repeat("0,", 2_100_000) + `0]}`, "line 11: has more than 2000000 values: split it"},
		"values in YAML": {`a: [` + strings.Repeat("0,", 2_100_000) + `0]`, "line 11: has more than 2000000 values: split it"},
	} {
		docs, err := ParseDocuments("f", []byte(test.text), 10)
		if unreadable, ok := errors.AsType[*Error](err); !ok || unreadable.Error() != test.want || len(docs) > 0 {
			t.Errorf("%s: have %.200v and %d documents\nwant %s", name, err, len(docs), test.want)
		}
	}
}

// The string and the text behind it are all texts of a few of the characters that matter, so backslashes before quotes come in
// every number.
func TestAStringEndsWhereEncodingJSONEndsIt(t *testing.T) {
	t.Parallel()
	texts := []string{""}
	for i := 0; len(texts[i]) < 5; i++ {
		for _, c := range `"\a,` {
			texts = append(texts, texts[i]+string(c))
		}
	}
	for _, text := range texts {
		encoded, err := json.Marshal(text)
		check.NoError(t, err)
		for _, behind := range []string{"", `:1,"\\"`, text} {
			check.Equal(t, EndOfString([]byte("{"+string(encoded)+behind), 1), len(encoded), "end of %s before %s", encoded, behind)
		}
		check.Equal(t, EndOfString(encoded[:len(encoded)-1], 0), len(encoded)-1, "end of %s without its last quote", encoded)
	}
}

// The size is at least that of the JSON text, because it bounds that.
func TestSizeOfCountsAliasesAsTheirValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"- &a {x: &b [1e20, \"<&>\\u2028\\\"\", 2001-1-1, ~]}\n- *a\n- *b\n- {<<: *a, y: [*b, *b]}\n",
		"- &a x\n- &a [y, z]\n- *a\n",
	} {
		doc, err := ParseYAML([]byte(text), FileLimit())
		check.NoError(t, err)
		flat, err := ParseJSON(doc.JSON, FileLimit())
		check.NoError(t, err)
		if doc.Size.Values < flat.Size.Values || doc.Size.Bytes < flat.Size.Bytes || doc.Size.Values > 2*flat.Size.Values {
			t.Errorf("%q has the size %+v, its JSON %+v", text, doc.Size, flat.Size)
		}
	}
}

func TestANumberThatJSONHasNotIsRefusedWhereItStands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		".nan": "line 12: .nan is not a decimal number", "-.inf": "line 12: -.inf is not a decimal number",
		"[1, .INF]": "line 12: .INF is not a decimal number", `".nan"`: "", "!!str .inf": "", "1e5": "",
	} {
		_, err := ParseDocuments("f", []byte("spec:\n  year: "+text+"\n"), 10)
		if refused, is := errors.AsType[*Error](err); is != (want != "") || is && (refused.Error() != want || refused.Column < len("  year: .")) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
