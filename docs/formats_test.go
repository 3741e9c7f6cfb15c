package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"examprep.dev/server/content/fields"
	"examprep.dev/server/content/importer"
	"examprep.dev/server/content/jsonl"
	"examprep.dev/server/content/sheet"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/golden"
)

const formatsHead = `# Formats of exams

<!-- TestGoldenFormats writes this page from server/content/fields: change the table there, and run make golden. -->

` + "`examprep content import`" + ` reads exams in three formats: JSON Lines, CSV and XLSX. It writes ExamContent resources, which
[exams.md](exams.md) describes. It takes no value that the API server or the operator would refuse. If anything is wrong, it prints
every problem with its position and writes nothing.

`

const formatsJSONLines = `## JSON Lines

    examprep content import --format jsonl --from DIR --out exams/

DIR has three files in UTF-8. In ` + "`exams.json`" + ` is an array of objects. ` + "`papers.jsonl` and `questions.jsonl`" + ` have one object on each
line. A field can be missing or null if it is not required. Fields that the tables do not list are counted and ignored.

`

const formatsSheets = `## CSV

    examprep content template --format csv --out sheet/
    examprep content import --format csv --from sheet/ --out exams/

The folder has ` + "`exams.csv`, `papers.csv` and `questions.csv`, and optionally `sections.csv`, `links.csv` and `steps.csv`" + `.

- The first row has the names of the columns, in any order. Another name is a problem. Columns that are not required can be missing.
- The separator is the comma, semicolon or tab with which the first row has known names.
- The encoding is UTF-8, or UTF-16 with a byte order mark. Name another one with ` + "`--encoding`, such as `windows-1252`" + `.
- A cell with a separator, a quotation mark or a line break is in quotation marks, and a quotation mark in it is doubled.
- A file has at most 256 MiB.
- The code of an error, such as ` + "`#REF!`" + `, is a problem. Texts like ` + "`1.2E+15` or `=A1`" + ` cause a warning.

## XLSX

    examprep content template --format xlsx --out exams.xlsx
    examprep content import --format xlsx --from exams.xlsx --out exams/

The workbook has sheets with the names of the CSV files. Other sheets are ignored, also that of the template which explains the columns.

- The first row has the names of the columns, as in CSV.
- A formula, a date, an error and merged cells are problems. Formulas are not evaluated.
- A number in a column of texts is a problem if the program may have changed what was typed: a number with a format of its own
  (` + "`007`, `1E+05`" + `) or with more than 15 digits. Format the cell as text and type it again. The template has this format.
- A truth value in a column of texts is a problem for the same reason.
- A workbook has at most 64 MiB, and 512 MiB unpacked. The names of columns are in its first 1,000 columns. Workbooks with a password and
  the format .xls are not read.

## Columns of sheets

The types mean the same in CSV and XLSX:

| Type | Cell |
|---|---|
| text | any text; only a line feed and a tab are allowed as control characters |
| whole number | digits without leading zeros |
| number | digits, with a point before decimals: ` + "`-0.25`" + ` |
| true or false | ` + "`true` or `false`" + `, in capitals too; in XLSX also a truth value |
| list of texts | texts separated by semicolons: ` + "`maps; rivers`" + ` |
| JSON object | an object such as ` + "`{\"pass_mark\": 50}`" + ` |
| by kind | a letter (` + "`B`), letters (`A;C`), a number or a text, as `answerKind`" + ` says |

Rows without any text are skipped. White space around keys, numbers, kinds and addresses has no meaning.

`

// formatsPage returns docs/formats.md.
func formatsPage(t *testing.T) string {
	t.Helper()
	schema, err := fields.ReadSchema()
	check.NoError(t, err)
	var page strings.Builder
	page.WriteString(formatsHead + formatsJSONLines)
	for _, record := range fields.Records() {
		title := "`" + record.File + "`"
		if record.Within != "" {
			title += ": `" + record.Within + "`"
		}
		page.WriteString("### " + title + "\n\n" + record.About + "\n\n")
		table(&page, record, schema, "Field", func(f fields.Field) string { return f.JSON })
	}
	page.WriteString("### Example of JSON Lines\n\nOne exam with a paper and a question:\n\n")
	for _, record := range fields.Records()[:3] {
		fmt.Fprintf(&page, "`%s`:\n\n```json\n%s\n```\n\n", record.File, exampleLine(t, record))
	}
	page.WriteString(formatsSheets)
	folder := t.TempDir()
	_, err = sheet.WriteTemplateCSV(folder)
	check.NoError(t, err)
	for _, record := range fields.Records() {
		optional := ""
		if record.Optional {
			optional = " The sheet is optional."
		}
		page.WriteString("### Sheet `" + record.Sheet + "`\n\n" + record.About + optional + "\n\n")
		table(&page, record, schema, "Column", func(f fields.Field) string {
			if f.Through != "" {
				return f.Column + "` to `" + f.Through
			}
			return f.Column
		})
		fmt.Fprintf(&page, "Example:\n\n```csv\n%s```\n\n", testkit.ReadFile(t, filepath.Join(folder, record.Sheet+".csv")))
	}
	return strings.TrimSuffix(page.String(), "\n")
}

// table writes a table of the fields that have a name, if there is one.
func table(page *strings.Builder, record fields.Record, schema fields.Schema, title string, name func(fields.Field) string) {
	rows := ""
	for _, field := range record.Fields {
		if name(field) == "" {
			continue
		}
		required := ""
		if schema.Required(record, field) {
			required = "yes"
		}
		rows += "| `" + name(field) + "` | " + strings.Join([]string{
			string(field.Type), required, schema.Limits(record, field), field.About,
		}, " | ") + " |\n"
	}
	if rows != "" {
		page.WriteString("| " + title + " | Type | Required | Limits | Meaning |\n|---|---|---|---|---|\n" + rows + "\n")
	}
}

// exampleLine returns a line of JSON Lines with the examples of a record.
func exampleLine(t *testing.T, record fields.Record) string {
	t.Helper()
	value := make(map[string]any)
	for _, field := range record.Fields {
		if field.JSON == "" || field.Example == "" {
			continue
		}
		at := value
		path := strings.Split(field.JSON, ".")
		for _, name := range path[:len(path)-1] {
			below, ok := at[name].(map[string]any)
			if !ok {
				below = make(map[string]any)
				at[name] = below
			}
			at = below
		}
		at[path[len(path)-1]] = exampleValue(t, field)
	}
	text := string(testkit.Encode(t, value))
	if record.File == "exams.json" {
		text = "[" + text + "]"
	}
	return text
}

func exampleValue(t *testing.T, field fields.Field) any {
	t.Helper()
	switch {
	case field.Through != "":
		options := make(map[string]string)
		for i, text := range strings.Split(field.Example, "; ") {
			options[field.Columns()[i]] = text
		}
		return options
	case field.Type == fields.Whole || field.Type == fields.Number:
		return json.Number(field.Example)
	case field.Type == fields.Boolean:
		value, err := strconv.ParseBool(field.Example)
		check.NoError(t, err)
		return value
	case field.Type == fields.Object:
		return json.RawMessage(field.Example)
	default:
		return field.Example
	}
}

func TestGoldenFormats(t *testing.T) {
	golden.CompareFile(t, "formats.md", formatsPage(t))
}

// The page's examples of both formats are the same exam, and import without a problem.
func TestExamplesOfFormatsImport(t *testing.T) {
	csv, lines := t.TempDir(), t.TempDir()
	_, err := sheet.WriteTemplateCSV(csv)
	check.NoError(t, err)
	for _, record := range fields.Records()[:3] {
		testkit.WriteFile(t, filepath.Join(lines, record.File), []byte(exampleLine(t, record)+"\n"))
	}
	for _, optional := range fields.Records()[3:] {
		check.NoError(t, os.Remove(filepath.Join(csv, optional.Sheet+".csv")))
	}
	fromCSV, err := sheet.ImportCSV(t.Context(), importer.Options{From: csv, Out: t.TempDir()}, "")
	check.NoError(t, err)
	fromLines, err := jsonl.Import(t.Context(), importer.Options{From: lines, Out: t.TempDir()})
	check.NoError(t, err)
	check.Equal(t, len(fromCSV.Problems)+len(fromLines.Problems)+len(fromLines.Ignored), 0, "problems and ignored fields")
	var kept []string
	for line := range strings.Lines(string(testkit.ReadFile(t, fromLines.Exams[0].File))) {
		if !strings.Contains(line, "sourceDigest: ") {
			kept = append(kept, line)
		}
	}
	check.Equal(t, strings.Join(kept, ""), string(testkit.ReadFile(t, fromCSV.Exams[0].File)), "the exam of JSON Lines without its digest")
}
