package main

import (
	"fmt"
	"regexp"
	"strings"
)

// maxWords is the length of the longest sentence, maxShown that of the longest wording in a finding.
const maxWords, maxShown = 35, 8

// checker holds the rules and the expressions for text that they skip.
type checker struct {
	rules []rule
	// generated marks a generated file; code matches spans of code, template actions, addresses, and targets of links;
	// stop matches the end of a statement.
	generated, code, stop *regexp.Regexp
}

func newChecker() checker {
	return checker{
		rules:     rules(),
		generated: regexp.MustCompile(`Code generated .*DO NOT EDIT|controller-gen\.kubebuilder\.io/version`),
		code:      regexp.MustCompile("(?s)`[^`]*`|{{.*?}}|https?://[^\\s)]+|\\]\\([^)]*\\)"),
		stop:      regexp.MustCompile(`[.!?:;]['")*]*(?:\s|$)`),
	}
}

// check returns the findings of one file, each as FILE:LINE: "WORDING" (RULE): ALTERNATIVE.
func (c checker) check(name, text string) []string {
	mark, ok := markOf(name)
	if !ok || c.generated.MatchString(text[:min(len(text), 500)]) {
		return nil
	}
	var findings []string
	for _, p := range read(name, mark, text) {
		prose := c.code.ReplaceAllStringFunc(p.text, func(span string) string { return strings.Repeat("x", len(span)) })
		report := func(begin, end int, rule, instead string) {
			words := strings.Fields(p.text[begin:end])
			wording := strings.Join(words[:min(len(words), maxShown)], " ")
			line := p.first + strings.Count(p.text[:begin], "\n")
			findings = append(findings, fmt.Sprintf("%s:%d: %q (%s): %s", name, line, wording, rule, instead))
		}
		for _, r := range c.rules {
			for _, at := range r.pattern.FindAllStringIndex(prose, -1) {
				if wording := prose[at[0]:at[1]]; !r.except.MatchString(wording) {
					bare := strings.TrimLeft(wording, "\n .!?;:|–—(")
					report(at[1]-len(bare), at[1], r.name, r.instead)
				}
			}
		}
		begin := 0
		for _, stop := range append(c.stop.FindAllStringIndex(prose, -1), []int{len(prose), len(prose)}) {
			sentence := prose[begin:stop[0]]
			if words := strings.Fields(sentence); len(words) > maxWords && !strings.ContainsAny(sentence, "={}") {
				report(begin, stop[0], "long sentence", fmt.Sprintf("split it; it has %d words", len(words)))
			}
			begin = stop[1]
		}
	}
	return findings
}
