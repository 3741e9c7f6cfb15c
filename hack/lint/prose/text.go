package main

import (
	"path"
	"regexp"
	"strings"
)

// paragraph is text that is read without a break: consecutive lines from the line first on.
type paragraph struct {
	first int
	text  string
}

// markOf returns how a comment begins in a file of that name. It is empty if all text is prose; ok is false if none is.
func markOf(name string) (mark string, ok bool) {
	if strings.Contains("/"+name, "/testdata/") || strings.HasPrefix(name, "charts/examprep/files/") {
		return "", false
	}
	switch base, extension := path.Base(name), path.Ext(name); {
	case extension == ".md" || base == "NOTES.txt":
		return "", true
	case extension == ".go":
		return "//", true
	case extension == ".sql" || extension == ".lua":
		return "--", true
	case extension == ".yaml" || extension == ".sh" || base == "Makefile" || base == "Dockerfile":
		return "#", true
	}
	return "", false
}

// reader collects the paragraphs of a file.
type reader struct {
	paragraphs []paragraph
	// open is true if the next line continues the last paragraph, code if an indented line is code.
	open, code bool
	// item matches the mark of a list item, separate a heading, the row of a table or a directive.
	item, separate, key, literal *regexp.Regexp
}

func newReader() reader {
	return reader{
		code:     true,
		item:     regexp.MustCompile(`^(?:[-*+>]|\d+\.) +`),
		separate: regexp.MustCompile(`^(?:#|\||\+\w|go:|nolint|name: )`),
		key:      regexp.MustCompile(`^(?:- )?["\w./-]+:(?: +|$)`),
		literal:  regexp.MustCompile(`"(?:[^"\\ ]|\\.)*(?: (?:[^"\\ ]|\\.)*){3,}"`),
	}
}

// end ends the paragraph.
func (r *reader) end() { r.open, r.code = false, true }

// add adds a line. It skips code: lines indented by a tab, or by four spaces after an empty line.
func (r *reader) add(number int, text string) {
	bare := strings.TrimSpace(text)
	mark := r.item.FindString(bare)
	separate := r.separate.MatchString(bare)
	switch {
	case bare == "":
		r.end()
		return
	case strings.HasPrefix(text, "\t") || r.code && strings.HasPrefix(text, "    "):
		r.open = false
		return
	case separate || mark != "" || !r.open:
		r.paragraphs = append(r.paragraphs, paragraph{number, bare[len(mark):]})
	default:
		r.paragraphs[len(r.paragraphs)-1].text += "\n" + bare
	}
	r.open, r.code = !separate, false
}

// addAlone adds a paragraph of one line.
func (r *reader) addAlone(number int, text string) {
	r.end()
	r.add(number, strings.TrimSpace(text))
	r.end()
}

// read returns the prose of a file: all of Markdown without blocks of code, elsewhere comments, the values of YAML, and
// the strings of Go that have four words. The strings of tests are data.
func read(name, mark, text string) []paragraph {
	r := newReader()
	isYAML, hasMessages := path.Ext(name) == ".yaml", path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go")
	fenced, inComment := false, false
	for i, l := range strings.Split(text, "\n") {
		number, bare := i+1, strings.TrimSpace(l)
		if mark == "" {
			isFence := strings.HasPrefix(bare, "```")
			if fenced = fenced != isFence; fenced || isFence {
				l = ""
			}
			r.add(number, l)
			continue
		}
		body, isComment := strings.CutPrefix(bare, mark)
		if isComment != inComment {
			r.end()
		}
		if inComment = isComment; isComment {
			r.add(number, strings.TrimPrefix(body, " "))
			continue
		}
		code, comment, _ := strings.Cut(bare, " "+mark)
		if isYAML {
			key := r.key.FindString(code)
			if key != "" {
				r.end()
			}
			r.add(number, code[len(key):])
		} else if hasMessages && strings.Contains(code, `"`) {
			for _, literal := range r.literal.FindAllString(code, -1) {
				r.addAlone(number, strings.Trim(literal, `"`))
			}
		}
		if comment != "" && strings.Count(code, `"`)%2 == 0 {
			r.addAlone(number, strings.TrimLeft(comment, mark))
		}
	}
	return r.paragraphs
}
