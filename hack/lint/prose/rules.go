package main

import (
	"regexp"
	"strings"
)

// rule finds wording and names the alternative. Wording that except matches as well is not a finding.
type rule struct {
	name, instead   string
	pattern, except *regexp.Regexp
}

// start is the beginning of a sentence or of a clause; never matches no wording.
const (
	start = `(?:^|[.!?;:|–—] |\()`
	never = `^$`
)

// rules are about wording that is almost always wrong. A space in a pattern stands for any white space. Patterns take in
// the words around the wording that except needs.
func rules() []rule {
	table := []struct{ name, pattern, except, instead string }{
		{"who", start + `[Ww]ho [a-z]+ [^.?!]*[.?!]?`, `\?$`, "name the actor: the client, the caller, the worker"},
		{"whoever", `\b[Ww]ho(?:m|ever|mever)\b`, never, "name the actor: every client that, the process that"},
		{"what", start + `What [\w' -]{1,60}? (?:is|are|was|were|has|must|can) [^.?!]+[.?!]?`, `\?$|^What (?:it|they) (?:is|are|was|were) | called\.$`, "name the thing: pending deliveries"},
		{"of what", `\b(?:\w+ )?(?:of|to|than|by|for|on) what (?:is|was|are|were|has|had|can|it|they)\b`, `^(?:bas|depend)`, "name the thing"},
		{"nobody", `\b(?:\w+ )?(?:[Ss]ome|[Ee]very|[Aa]ny|[Nn]o)body\b`, `^(?:user|as) `, "name the actor: no client, every worker"},
		{"of first", `(?:^|[.|] )Of \w+|; of (?:an?|the|those|these|one|two)\b`, `Of course`, "start with the subject"},
		{"inverted", start + `(?:[Ss]hould (?:an?|the|it|they|this|that|some)|[Nn]or \w+|[Ss]o (?:is|are|do|does))\b`, never, "write if, also, and not"},
		{"is to", `\b(?:is|are|was|were) (?:not |never )?to (?:be|have|get|go|send|read|do|keep|take|wait)\b`, never, "write must, should, can, will"},
		{"tell of", `\b(?:[Tt]ells?|told) of\b|\b(?:is|are|was|were|be|been) told\b(?: \w+)?`, `told (?:apart|to)$`, "write report, notify, log, describe"},
		{"says whether", `^\w+ (?:says|tells) (?:whether|that|if|how|why|what|when)\b`, never, "write reports whether, returns"},
		{"know of", `\b(?:says?|said|knows?|known|heard|asked|comes?|came|became) of (?:it|them|an?|the|its|that|all)\b`, never, "write about, from"},
		{"beside", `\b[Bb]eside\b`, never, "write next to, besides, alongside, in addition to"},
		{"is no", `\b(?:\w+ )?(?:is|are|was|were) no \w+`, `^[Tt]here |no (?:longer|need|way|such|one|different|other|more|less|older|newer|later|larger|better)$`, "write is not a"},
		{"any more", `\(any more\)|\b(?:not|cannot|none) [^.;:]*\bany more\b|\bno more(?:[.,;:)]|$)`, never, "write no longer, not … again"},
		{"stands in", `\b[Ss]tands? (?:in|at|on|before|behind|there|beside)\b(?: \w+)?|\bmust lie\b`, `in (?:for|front)$`, "write is in, precedes, must be"},
		{"is away", `\b(?:is|are|was|were|be|being) away\b(?: \w+)?`, ` from$`, "write unavailable, unreachable, down"},
		{"dated", `\b(?:anew|(?:\w+ )?all the same|of late|seldom|in the midst|for ever|next to nothing)\b`, `^(?:are|were) `, "write again, still, recently, rarely, indefinitely"},
		{"mend", `\b(?:[Mm]end(?:s|ed|ing)?|puts? (?:it |them )?right|in hand-?)(?:\b|$)`, `-$`, "write fix, repair, restore; in progress, held"},
		{"answer status", `\b[Aa]nswer(?:s|ed)? (?:a )?[1-5]\d\d\b`, never, "write returns 503, responds with 503"},
		{"coined", `\b(?:(?:[Ss]trand|[Nn]udge|[Cc]rowd|[Aa]ppetite|[Kk]eeper)s?|crowded|hungry)\b`, never, "use the field's word: coroutine, wake-up, clients"},
	}
	rules := make([]rule, len(table))
	compile := func(pattern string) *regexp.Regexp { return regexp.MustCompile(strings.ReplaceAll(pattern, " ", `\s`)) }
	for i, r := range table {
		rules[i] = rule{r.name, r.instead, compile(r.pattern), compile(r.except)}
	}
	return rules
}
