package grid

import (
	"encoding/xml"
	"regexp"
	"strconv"
	"strings"
)

// format is how a number format shows a number.
type format uint8

const (
	formatGeneral format = iota // as it is stored, or as a text
	formatDate
	formatOther
)

const (
	maxStyles = 100_000
	// The numbers of the built-in formats: General and Text, and the ranges of dates and times.
	numberGeneral, numberText = 0, 49
)

// readStyles reads the number formats.
func (w *Workbook) readStyles(part string) error {
	custom := make(map[int]format)
	return w.read(part, func(x *xmlReader) error {
		inCells := false
		for {
			token, err := x.next()
			if token == nil || err != nil {
				return err
			}
			switch token := token.(type) {
			case xml.EndElement:
				inCells = inCells && token.Name.Local != "cellXfs"
			case xml.StartElement:
				e := elementOf(token)
				number, _ := strconv.Atoi(e.attribute("numFmtId")) // without one it is General
				switch {
				case e.name == "cellXfs":
					inCells = true
				case e.name == "numFmt":
					custom[number] = formatOf(e.attribute("formatCode"))
				case e.name == "xf" && inCells:
					w.styles = append(w.styles, numberFormat(number, custom))
				}
			default:
			}
			if len(w.styles) > maxStyles || len(custom) > maxStyles {
				return errorf("has more than %d styles", maxStyles)
			}
		}
	})
}

func numberFormat(number int, custom map[int]format) format {
	if known, ok := custom[number]; ok {
		return known
	}
	switch {
	case number == numberGeneral || number == numberText:
		return formatGeneral
	case 14 <= number && number <= 22, 27 <= number && number <= 36, 45 <= number && number <= 47, 50 <= number && number <= 58:
		return formatDate
	default:
		return formatOther
	}
}

// noLetters are the parts of a format's code in which letters have no meaning: quoted and escaped text, padding, colours and languages.
var noLetters = regexp.MustCompile(`"[^"]*"|\\.|_.|\*.|\[[^\]]*\]`)

// elapsed is an hour, minute or second beyond a day, in brackets.
var elapsed = regexp.MustCompile(`(?i)\[(h+|m+|s+)\]`)

// formatOf reads the code of a number format.
func formatOf(code string) format {
	switch {
	case strings.EqualFold(code, "General") || code == "@":
		return formatGeneral
	case elapsed.MatchString(code), strings.ContainsAny(strings.ToLower(noLetters.ReplaceAllString(code, "")), "dmyhs"):
		return formatDate
	default:
		return formatOther
	}
}
