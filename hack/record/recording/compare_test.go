package recording_test

import (
	"bytes"
	"strings"
	"testing"

	"examprep.dev/hack/record/recording"
	"examprep.dev/server/testkit/check"
)

func exchange(change func(*recording.Exchange)) recording.Exchange {
	e := recording.Exchange{
		Name: "group/name", Request: "GET / HTTP/1.1\r\n\r\n", Connection: "kept",
		Responses: []recording.Response{{
			Status: "HTTP/1.1 200 OK", Headers: []string{"A: 1", "B: 2"}, Body: `{"error":"x","errors":[{"field":"a"}]}`,
		}},
	}
	if change != nil {
		change(&e)
	}
	return e
}

func TestCompareNamesThePartThatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*recording.Exchange)
		want   []string
	}{
		"nothing":        {nil, nil},
		"request":        {func(e *recording.Exchange) { e.Request = "HEAD / HTTP/1.1\r\n\r\n" }, []string{"request"}},
		"status":         {func(e *recording.Exchange) { e.Responses[0].Status = "HTTP/1.1 404 Not Found" }, []string{"status"}},
		"header value":   {func(e *recording.Exchange) { e.Responses[0].Headers = []string{"A: 1", "B: 3"} }, []string{"header.B"}},
		"header absent":  {func(e *recording.Exchange) { e.Responses[0].Headers = []string{"A: 1"} }, []string{"header.B"}},
		"header added":   {func(e *recording.Exchange) { e.Responses[0].Headers = []string{"A: 1", "B: 2", "C: 3"} }, []string{"header.C"}},
		"header twice":   {func(e *recording.Exchange) { e.Responses[0].Headers = []string{"A: 1", "A: 1", "B: 2"} }, []string{"header.A"}},
		"header spelt":   {func(e *recording.Exchange) { e.Responses[0].Headers = []string{"A: 1", "b: 2"} }, []string{"header.B", "header.b"}},
		"coding":         {func(e *recording.Exchange) { e.Responses[0].Coding = "br" }, []string{"coding"}},
		"member":         {func(e *recording.Exchange) { e.Responses[0].Body = `{"error":"y","errors":[{"field":"a"}]}` }, []string{"body.error"}},
		"nested member":  {func(e *recording.Exchange) { e.Responses[0].Body = `{"error":"x","errors":[{"field":"b"}]}` }, []string{"body.errors.0.field"}},
		"member absent":  {func(e *recording.Exchange) { e.Responses[0].Body = `{"errors":[{"field":"a"}]}` }, []string{"body.error"}},
		"longer list":    {func(e *recording.Exchange) { e.Responses[0].Body = `{"error":"x","errors":[]}` }, []string{"body.errors"}},
		"order of names": {func(e *recording.Exchange) { e.Responses[0].Body = `{"errors":[{"field":"a"}],"error":"x"}` }, []string{"body"}},
		"no JSON":        {func(e *recording.Exchange) { e.Responses[0].Body = "<html>" }, []string{"body"}},
		"response added": {func(e *recording.Exchange) { e.Responses = append(e.Responses, e.Responses[0]) }, []string{"2.response"}},
		"none":           {func(e *recording.Exchange) { e.Responses = nil }, []string{"response"}},
		"connection":     {func(e *recording.Exchange) { e.Connection = "closed" }, []string{"connection"}},
		"name":           {func(e *recording.Exchange) { e.Name = "group/other" }, []string{"exchange", "exchange"}},
	} {
		t.Run(name, func(t *testing.T) {
			var parts []string
			for _, difference := range recording.Compare([]recording.Exchange{exchange(nil)}, []recording.Exchange{exchange(c.change)}) {
				parts = append(parts, difference.Part)
			}
			check.Slices(t, parts, c.want, "parts")
		})
	}
}

func TestCompareNamesTheResponse(t *testing.T) {
	two := func(status string) []recording.Exchange {
		e := exchange(nil)
		e.Responses = append(e.Responses, recording.Response{Status: status})
		return []recording.Exchange{e}
	}
	found := recording.Compare(two("HTTP/1.1 200 OK"), two("HTTP/1.1 503 Service Unavailable"))
	if len(found) != 1 || found[0].Part != "2.status" {
		t.Errorf("found %v", found)
	}
}

func TestSplitReportsUnusedEntries(t *testing.T) {
	list := "# a comment\n\nhostile-*  header.x-request-id  a new id\n* body.detail other words\nnothing/here status  never\n"
	allowed, err := recording.ReadAllowed(strings.NewReader(list))
	check.NoError(t, err)
	difference := func(exchange, part string) recording.Difference {
		return recording.Difference{Exchange: exchange, Part: part}
	}
	unexpected, expected, unused := recording.Split([]recording.Difference{
		difference("hostile-lines/a", "header.x-request-id"), difference("attempts/a", "body.detail"), difference("attempts/a", "body.error"),
		difference("attempts/hostile-a", "header.x-request-id"),
	}, allowed)
	if len(unexpected) != 2 || unexpected[0].Part != "body.error" || unexpected[1].Exchange != "attempts/hostile-a" {
		t.Errorf("unexpected %v", unexpected)
	}
	if len(expected) != 2 {
		t.Errorf("expected %v", expected)
	}
	if len(unused) != 1 || unused[0].Line != 5 || unused[0].Reason != "never" {
		t.Errorf("unused %v", unused)
	}
}

func TestPatternMatchesTheWholeName(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a/b", "a/b", true},
		{"a/b", "a/bc", false},
		{"a/*", "a/b/c", true},
		{"*", "", true},
		{"*b", "ab", true},
		{"*b", "abc", false},
		{"a*c", "abc", true},
		{"a*c", "ac", true},
		{"a*a", "a", false},
		{"a*b*c", "a1b2c", true},
		{"a*b*c", "a1c2b", false},
	} {
		allowed := recording.Allowed{Exchange: c.pattern, Part: "*"}
		check.Equal(t, allowed.Allows(recording.Difference{Exchange: c.name, Part: "status"}), c.want, "%q matches %q", c.pattern, c.name)
	}
}

func TestAllowedEntryNeedsAReason(t *testing.T) {
	if _, err := recording.ReadAllowed(strings.NewReader("a/b status\n")); err == nil {
		t.Error("an entry without a reason is read")
	}
}

func TestRecordingIsReadAsItWasWritten(t *testing.T) {
	written := []recording.Exchange{exchange(nil), exchange(func(e *recording.Exchange) { e.Name, e.Responses = "group/<b>", nil })}
	var file bytes.Buffer
	check.NoError(t, recording.Write(&file, written))
	read, err := recording.Read(&file)
	check.NoError(t, err)
	if found := recording.Compare(written, read); len(found) > 0 || len(read) != len(written) {
		t.Errorf("%d exchanges, differences %v", len(read), found)
	}
}

func TestRecordingWithTwoExchangesOfOneNameIsRefused(t *testing.T) {
	if _, err := recording.Read(strings.NewReader(`{"name":"a"}` + "\n" + `{"name":"a"}` + "\n")); err == nil {
		t.Error("a name was read twice")
	}
}
