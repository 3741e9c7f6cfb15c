package grid

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func known(name string) bool { return name == "key" || name == "name" }

// readCSV returns the texts of all cells, a row a line, and the error.
func readCSV(t *testing.T, text, encoding string) (string, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f.csv")
	testkit.WriteFile(t, name, []byte(text))
	file, err := OpenCSV(name, encoding, known)
	if err != nil {
		return "", err
	}
	defer func() { check.NoError(t, file.Close()) }()
	found := join(file.Header)
	for row, err := range file.Rows() {
		if err != nil {
			return found, err
		}
		found += "\n" + join(row)
	}
	return found, nil
}

func join(row Row) string {
	texts := make([]string, len(row.Cells))
	for i, cell := range row.Cells {
		texts[i] = cell.Text
		if cell.Kind == Undecodable {
			texts[i] = "?"
		}
	}
	return strings.Join(texts, "|")
}

func TestCSVIsReadInEachEncodingAndWithEachSeparator(t *testing.T) {
	t.Parallel()
	const text = "key,name\na,\"é, x\"\n"
	const want = "key|name\na|é, x"
	utf16 := func(order unicode.Endianness) string {
		encoded, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(text)
		check.NoError(t, err)
		return encoded
	}
	windows, err := charmap.Windows1252.NewEncoder().String(text)
	check.NoError(t, err)
	for name, test := range map[string]struct{ text, encoding string }{
		"UTF-8":                    {text, ""},
		"UTF-8 by name":            {text, "utf-8"},
		"with byte order mark":     {"\ufeff" + text, ""},
		"UTF-16, little endian":    {utf16(unicode.LittleEndian), ""},
		"UTF-16, big endian":       {utf16(unicode.BigEndian), "utf-16"},
		"Windows-1252":             {windows, "windows-1252"},
		"semicolons":               {"key;name\na;é, x\n", ""},
		"tabs and CR LF":           {"key\tname\r\na\té, x\r\n", ""},
		"no line feed at the end":  {strings.TrimSuffix(text, "\n"), ""},
		"semicolons, comma inside": {"\"key\";name\na;\"é, x\"\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			have, err := readCSV(t, test.text, test.encoding)
			check.NoError(t, err)
			check.Equal(t, have, want, "cells")
		})
	}
}

func TestCSVIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, encoding, want string }{
		"empty":             {"", "", "is empty"},
		"not UTF-8":         {"key,name\na,b\nc,\xe9\n", "", "3: is not valid UTF-8: save the file as UTF-8, or name its encoding with --encoding"},
		"header not UTF-8":  {"key,\xe9\n", "", "1: is not valid UTF-8"},
		"UTF-16 without it": {"k\x00e\x00y\x00,\x00n\x00", "", "1: has a NUL character"},
		"other mark":        {"\ufeffkey,name\n", "windows-1252", "byte order mark of another encoding than windows-1252"},
		"open quote":        {"key,name\na,b\nc,\"d\ne,f\n", "", "3: has a \" that is not doubled, or a quoted cell without an end"},
		"bare quote":        {"key,name\na,b\"c\n", "", "2: has a \" inside a cell"},
		"long row":          {"key,name\na,\"" + strings.Repeat("x\n", maxRecordBytes/2) + "\"\n", "", "has a row of more than 8 MiB"},
		"wide row":          {"key,name\n" + strings.Repeat(",", maxColumns) + "\n", "", "2: has a row of more than 1000 cells"},
		"wide quoted row":   {"key,name\n" + strings.Repeat(`"",`, maxColumns) + "\n", "", "2: has a row of more than 1000 cells"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readCSV(t, test.text, test.encoding)
			failed, ok := errors.AsType[*Error](err)
			if !ok || !strings.Contains(failed.Error(), test.want) {
				t.Errorf("have %v, want %s", err, test.want)
			}
		})
	}
	if have, err := readCSV(t, "key,name\na,\x81\n", "windows-1252"); err != nil || have != "key|name\na|?" {
		t.Errorf("have %q, %v, want an undecodable cell", have, err)
	}
	check.Contains(t, fmt.Sprint(CheckEncoding("klingon")), `the encoding "klingon" is not known`, "error")
}

// sparse creates a file of a size that takes no space.
func sparse(t *testing.T, size int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "huge")
	testkit.WriteFile(t, name, nil)
	check.NoError(t, os.Truncate(name, size))
	return name
}

func TestFilesOfTwoGigabytesAreRefusedUnread(t *testing.T) {
	t.Parallel()
	huge := sparse(t, 2<<30)
	_, err := OpenCSV(huge, "", known)
	check.Contains(t, fmt.Sprint(err), "is larger than 256 MiB", "error")
	_, err = OpenWorkbook(huge)
	check.Contains(t, fmt.Sprint(err), "is larger than 64 MiB", "error")
	_, err = OpenWorkbook(t.TempDir())
	check.Contains(t, fmt.Sprint(err), "is not a file", "error")
}

// saved returns the name of a file with the workbook.
func saved(t *testing.T, book *excelize.File) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "book.xlsx")
	check.NoError(t, book.SaveAs(name))
	check.NoError(t, book.Close())
	return name
}

func TestWorkbookCellsHaveTheirKinds(t *testing.T) {
	t.Parallel()
	book := excelize.NewFile()
	set := func(cell string, value any, formats ...string) {
		t.Helper()
		check.NoError(t, book.SetCellValue("Sheet1", cell, value))
		for i := range formats {
			style, err := book.NewStyle(&excelize.Style{CustomNumFmt: &formats[i]})
			check.NoError(t, err)
			check.NoError(t, book.SetCellStyle("Sheet1", cell, cell, style))
		}
	}
	set("A1", "text")
	set("B1", 7.5)
	set("C1", true)
	set("D1", time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC))
	check.NoError(t, book.SetCellFormula("Sheet1", "E1", "=1+1"))
	set("A3", 7, "000")
	set("B3", 45000, `d\.mm\.yyyy`)
	set("C3", 45000, `"day"0`)
	set("D3", 7, "@")
	set("E3", 0.5, "[h]:mm")
	check.NoError(t, book.SetCellStr("Sheet1", "G3", "a\r\nb_x0041_ &<"))
	file, err := OpenWorkbook(saved(t, book))
	check.NoError(t, err)
	defer func() { check.NoError(t, file.Close()) }()
	check.Slices(t, file.Sheets, []string{"Sheet1"}, "sheets")
	var have []string
	for row, err := range file.Rows("Sheet1") {
		check.NoError(t, err)
		for _, cell := range row.Cells {
			have = append(have, fmt.Sprintf("%d:%d %d %q %v", cell.Line, cell.Column, cell.Kind, cell.Text, cell.Formatted))
		}
	}
	check.Slices(t, have, []string{
		`1:1 1 "text" false`, `1:2 2 "7.5" false`, `1:3 3 "TRUE" false`, `1:4 4 "45413" false`, `1:5 5 "" false`,
		`3:1 2 "7" true`, `3:2 4 "45000" false`, `3:3 2 "45000" true`, `3:4 2 "7" false`, `3:5 4 "0.5" false`,
		`3:7 1 "a\r\nbA &<" false`,
	}, "cells")
}

// parts are the parts of a small workbook.
func parts(sheet string) map[string]string {
	const relations = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`
	const office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
	return map[string]string{
		"_rels/.rels":     relations + `<Relationship Id="r" Type="` + office + `/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
		"xl/workbook.xml": `<workbook xmlns:r="` + office + `"><sheets><sheet name="s" sheetId="1" r:id="r1"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": relations + `<Relationship Id="r1" Type="` + office + `/worksheet" Target="worksheets/sheet1.xml"/>` +
			`<Relationship Id="r2" Type="` + office + `/sharedStrings" Target="/xl/sharedStrings.xml"/></Relationships>`,
		"xl/sharedStrings.xml":     `<sst><si><t>one</t></si><si><r><t>t</t></r><r><t>wo</t></r><rPh><t>no</t></rPh></si></sst>`,
		"xl/worksheets/sheet1.xml": `<worksheet><sheetData>` + sheet + `</sheetData></worksheet>`,
	}
}

// archive returns a ZIP archive with the parts.
func archive(t testing.TB, parts map[string]string) []byte {
	t.Helper()
	var text bytes.Buffer
	writer := zip.NewWriter(&text)
	for name, content := range parts {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if content == "" {
			header.Method = zip.Store // a compressor for each of many empty parts takes most of the test's time
		}
		part, err := writer.CreateHeader(header)
		check.NoError(t, err)
		_, err = part.Write([]byte(content))
		check.NoError(t, err)
	}
	check.NoError(t, writer.Close())
	return text.Bytes()
}

// readAll returns the texts of all cells of all sheets, a row a line.
func readAll(text []byte) (string, error) {
	book, err := readWorkbook(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return "", err
	}
	var found strings.Builder
	for _, sheet := range book.Sheets {
		for row, err := range book.Rows(sheet) {
			if err != nil {
				return found.String(), err
			}
			fmt.Fprintf(&found, "%d: %s\n", row.Line, join(row))
		}
	}
	return found.String(), nil
}

func TestWorkbookWithoutNamesOfCellsIsRead(t *testing.T) {
	t.Parallel()
	have, err := readAll(archive(t, parts(`<row><c t="s"><v>1</v></c><c t="s"><v>0</v></c></row><row r="4"><c r="B4" t="inlineStr"><is><t>x</t></is></c></row>`)))
	check.NoError(t, err)
	check.Equal(t, have, "1: two|one\n4: |x\n", "cells")
}

func TestWorkbookFormulasAreNotValues(t *testing.T) {
	t.Parallel()
	text := archive(t, parts(`<row><c><f>1+1</f><v>2</v></c><c t="str"><f t="shared" si="0"/><v>x</v></c><c t="b"><f>FALSE()</f><v>1</v></c></row>`))
	book, err := readWorkbook(bytes.NewReader(text), int64(len(text)))
	check.NoError(t, err)
	for row, err := range book.Rows("s") {
		check.NoError(t, err)
		check.Equal(t, row.Cells[2].Text, "FALSE", "truth value, as LibreOffice saves it")
		row.Cells = row.Cells[:2]
		for _, cell := range row.Cells {
			check.Equal(t, cell.Kind, Formula, "kind of %q", cell.Text)
		}
	}
}

func TestHostileWorkbooksAreRefused(t *testing.T) {
	t.Parallel()
	with := func(name, text string) map[string]string {
		changed := parts(`<row><c t="s"><v>0</v></c></row>`)
		changed[name] = text
		return changed
	}
	var references strings.Builder
	for i := range maxRelations + 1 {
		fmt.Fprintf(&references, `<Relationship Id="%d"/>`, i)
	}
	many := make(map[string]string)
	for i := range 60_000 {
		many[fmt.Sprintf("part-%064d", i)] = ""
	}
	for name, test := range map[string]struct {
		text []byte
		want string
	}{
		"no archive":        {[]byte("PK, but no archive"), "is not an XLSX workbook"},
		"old format":        {[]byte("\xd0\xcf\x11\xe0 and so on"), "has a password or the old format .xls"},
		"many parts":        {archive(t, many), "too many parts"},
		"references":        {archive(t, with("xl/_rels/workbook.xml.rels", `<Relationships>`+references.String()+`</Relationships>`)), `a part "xl/workbook.xml" with more than 10000 references`},
		"wide header":       {archive(t, parts(`<row><c r="ALM1" t="s"><v>0</v></c></row>`)), "more than 1000 columns"},
		"no workbook":       {archive(t, map[string]string{"a": "b"}), `it has no part "_rels/.rels"`},
		"bomb":              {archive(t, parts(strings.Repeat(" ", maxTokenBytes+1))), "more than 1048576 bytes"},
		"entities":          {archive(t, with("xl/sharedStrings.xml", `<!DOCTYPE sst [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><sst><si><t>&b;</t></si></sst>`)), "document type declaration"},
		"unknown entity":    {archive(t, with("xl/sharedStrings.xml", `<sst><si><t>&b;</t></si></sst>`)), "invalid character entity"},
		"depth":             {archive(t, parts(strings.Repeat("<row>", 100))), "nested more than 64 deep"},
		"attributes":        {archive(t, parts("<row "+strings.Repeat(`a="" `, maxTokenBytes/5)+"/>")), "more than 1048576 bytes"},
		"rows":              {archive(t, parts(`<row r="1048577"><c><v>1</v></c></row>`)), "more than 1048576 rows"},
		"rows out of order": {archive(t, parts(`<row r="5"/><row r="5"/>`)), `has the row number "5" after row 5`},
		"columns":           {archive(t, parts(`<row><c r="XFE1"><v>1</v></c></row>`)), "more than 16384 columns"},
		"cell of other row": {archive(t, parts(`<row><c r="A2"><v>1</v></c></row>`)), `"A2" in the wrong place`},
		"cell twice":        {archive(t, parts(`<row><c r="A1"><v>1</v></c><c r="A1"><v>2</v></c></row>`)), `"A1" in the wrong place`},
		"no such text":      {archive(t, parts(`<row><c t="s"><v>2</v></c></row>`)), `the text number "2"`},
		"no number":         {archive(t, parts(`<row><c><v>0x10</v></c></row>`)), `the number "0x10"`},
		"no style":          {archive(t, parts(`<row><c s="1"><v>1</v></c></row>`)), `the style "1"`},
		"long text":         {archive(t, parts(`<row><c t="inlineStr"><is><t>`+strings.Repeat("x", maxCellBytes+1)+`</t></is></c></row>`)), "a cell of more than 512 KiB"},
		"merged cells":      {archive(t, parts(`<mergeCell ref="A1:B2"/>`)), "merged cells A1:B2"},
		"cut off":           {archive(t, with("xl/worksheets/sheet1.xml", `<worksheet><sheetData><row><c><v>1</v></c></row>`)), "unexpected EOF"},
		"cut off before it": {archive(t, parts(`<row><c><v>1</v></c></row>`))[:300], "is not an XLSX workbook"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readAll(test.text)
			failed, ok := errors.AsType[*Error](err)
			if !ok || !strings.Contains(failed.Detail, test.want) {
				t.Errorf("have %v, want %s", err, test.want)
			}
		})
	}
}

// A row costs as many cells as it has, and as many as the first row has texts.
func TestCellsBesideTheFirstRowHaveNoEmptyCellsBeforeThem(t *testing.T) {
	t.Parallel()
	const blank = `<c r="%s" t="inlineStr"><is><t> </t></is></c>`
	text := archive(t, parts(`<row>`+fmt.Sprintf(`<c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c>`+blank, "XFD1")+`</row>`+
		`<row>`+fmt.Sprintf(blank, "XFD2")+`</row><row><c r="B3" t="s"><v>1</v></c><c r="E3" t="s"><v>0</v></c>`+fmt.Sprintf(blank, "G3")+`</row>`))
	book, err := readWorkbook(bytes.NewReader(text), int64(len(text)))
	check.NoError(t, err)
	var columns []string
	for row, err := range book.Rows("s") {
		check.NoError(t, err)
		if row.Line == 1 {
			continue
		}
		for _, cell := range row.Cells {
			columns = append(columns, fmt.Sprintf("%d:%d=%s", cell.Line, cell.Column, cell.Text))
		}
	}
	check.Equal(t, strings.Join(columns, " "), "2:1= 2:2= 2:3= 2:16384=  3:1= 3:2=two 3:3= 3:5=one 3:7= ", "cells")
}

// A workbook that is small as a file can be huge unpacked, or repeat one text in each cell.
func TestWorkbookBudgetsEnd(t *testing.T) {
	t.Parallel()
	text := archive(t, parts(strings.Repeat(`<row><c t="s"><v>0</v></c></row>`, 1000)))
	for _, left := range []budget{{xml: 5000, text: 1 << 20}, {xml: 1 << 20, text: 2000}} {
		book, err := readWorkbook(bytes.NewReader(text), int64(len(text)))
		check.NoError(t, err)
		*book.budget = left
		rows := 0
		for _, err = range book.Rows("s") {
			rows++
		}
		if _, ok := errors.AsType[*Error](err); !ok || rows > 700 {
			t.Errorf("with %+v: %d rows and %v", left, rows, err)
		}
	}
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("key,name\na,\"b\nc\"\n"), "")
	f.Add([]byte("\xff\xfek\x00;\x00\n\x00"), "")
	f.Add([]byte("key\tname\n\xe9\t\"\n"), "windows-1252")
	f.Fuzz(func(t *testing.T, text []byte, encoding string) {
		c := &CSV{}
		if err := c.read(bytes.NewReader(text), encoding, known); err != nil {
			return
		}
		last := 0
		for row, err := range c.Rows() {
			if err != nil {
				return
			}
			if row.Line <= last || len(row.Cells) == 0 {
				t.Fatalf("row %d with %d cells after row %d", row.Line, len(row.Cells), last)
			}
			last = row.Line
		}
	})
}

func FuzzSheet(f *testing.F) {
	f.Add(`<row r="2"><c r="B2" t="s" s="0"><v>1</v></c><c t="b"><v>1</v></c><c t="e"><v>#REF!</v></c></row>`)
	f.Add(`<row><c t="inlineStr"><is><t>a_x000D_</t><rPh><t>b</t></rPh></is></c><c><f>1+1</f><v>2</v></c></row>`)
	f.Fuzz(func(t *testing.T, sheet string) {
		book := &Workbook{strings: []string{"a", "b"}, styles: []format{formatDate}, budget: &budget{xml: 1 << 20, text: 1 << 20}}
		last := 0
		reader := &sheetReader{workbook: book, yield: func(row Row, _ error) bool {
			if row.Line <= last {
				t.Fatalf("row %d after row %d", row.Line, last)
			}
			for i, cell := range row.Cells {
				if cell.Line != row.Line || cell.Column != i+1 && (last == 0 || cell.Column <= i) {
					t.Fatalf("cell %d of row %d is at %d:%d", i, row.Line, cell.Line, cell.Column)
				}
			}
			last = row.Line
			return true
		}}
		_ = reader.read(newXMLReader(strings.NewReader(sheet), book.budget))
	})
}

func FuzzWorkbook(f *testing.F) {
	f.Add(archive(f, parts(`<row><c t="s"><v>1</v></c></row>`)))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = readAll(text) })
}
