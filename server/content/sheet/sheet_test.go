package sheet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"examprep.dev/server/content"
	"examprep.dev/server/content/fields"
	"examprep.dev/server/content/importer"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// CSV files of one exam.
const (
	exams     = "examKey,name,scoring\na-b,A,\"{\"\"pass_mark\"\": 5}\"\n"
	papers    = "examKey,paperID,title,year,correct,publisher,sourceURL,license,language\na-b,a-b-2013,P,2013,1,p,https://example.org/,MIT,en\n"
	questions = "paperID,number,prompt,A,B,answerKind,answer,tolerance\na-b-2013,1,p,yes,no,choice,A,\na-b-2013,2,q,,,number,1.5,0.1\n"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	name := t.TempDir()
	for file, text := range files {
		testkit.WriteFile(t, filepath.Join(name, file), []byte(text))
	}
	return name
}

// imported returns the resource of one exam.
func imported(t *testing.T, report importer.Report, err error) content.Content {
	t.Helper()
	check.NoError(t, err)
	files, err := content.Load(t.Context(), nil, report.Exams[0].File)
	check.NoError(t, err)
	_, err = content.Lint(t.Context(), files, content.LintOptions{})
	check.NoError(t, err)
	return files.Contents[0]
}

func TestTemplatesImportAndLintWithoutAProblem(t *testing.T) {
	t.Parallel()
	csv, xlsx := filepath.Join(t.TempDir(), "template"), filepath.Join(t.TempDir(), "template.xlsx")
	written, err := WriteTemplateCSV(csv)
	check.NoError(t, err)
	check.Equal(t, len(written), len(fields.Records()), "files")
	check.NoError(t, WriteTemplateXLSX(xlsx))
	fromCSV, err := ImportCSV(t.Context(), importer.Options{From: csv, Out: t.TempDir()}, "")
	first := imported(t, fromCSV, err)
	fromXLSX, err := ImportXLSX(t.Context(), importer.Options{From: xlsx, Out: t.TempDir()})
	second := imported(t, fromXLSX, err)
	check.Equal(t, string(testkit.Encode(t, second.Spec)), string(testkit.Encode(t, first.Spec)), "the exam of the workbook")
	if len(fromXLSX.Ignored)+len(fromXLSX.Problems)+len(fromCSV.Problems) > 0 {
		t.Errorf("have %v, %v and %v", fromXLSX.Ignored, fromXLSX.Problems, fromCSV.Problems)
	}
	text := string(testkit.Encode(t, first.Spec))
	for _, record := range fields.Records() {
		for _, column := range record.Columns() {
			if example := record.Example(column); len(example) > 2 && example != "choice" && example != "false" && column != "list" && column != "scoring" && column != "step" && column != "skills" {
				check.Contains(t, text, example, "the exam with the example of "+column)
			}
		}
	}
	_, err = WriteTemplateCSV(csv)
	if !errors.Is(err, fs.ErrExist) || !errors.Is(WriteTemplateXLSX(xlsx), fs.ErrExist) {
		t.Errorf("a template replaced files: %v", err)
	}
}

func TestTextColumnsOfTheTemplateHaveTheFormatOfText(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "template.xlsx")
	check.NoError(t, WriteTemplateXLSX(name))
	book, err := excelize.OpenFile(name)
	check.NoError(t, err)
	defer func() { check.NoError(t, book.Close()) }()
	for _, record := range fields.Records() {
		for i, column := range record.Columns() {
			field, _ := record.Column(column)
			letter, err := excelize.ColumnNumberToName(i + 1)
			check.NoError(t, err)
			id, err := book.GetColStyle(record.Sheet, letter)
			check.NoError(t, err)
			style, err := book.GetStyle(id)
			check.NoError(t, err)
			check.Equal(t, style.NumFmt == textFormat, isText(field.Type), "text format of column %s of %s", column, record.Sheet)
		}
	}
}

func TestCSVProblemsNameFileLineAndColumn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, new, want string }{
		"unknown column":     {"prompt", "Prompt", "questions.csv:1:16: Prompt: is not a column of questions (did you mean prompt?)"},
		"column twice":       {"A,B,answerKind", "A,A,answerKind", "questions.csv:1:25: A: is a column already"},
		"missing column":     {"paperID,number", "paperID,page", "questions.csv:1: number: the column is missing"},
		"cell outside":       {"choice,A,", "choice,A,,x", "questions.csv:2:31: the cell has no column"},
		"no key":             {"a-b,A", ",A", "exams.csv:2: examKey: is required"},
		"unknown exam":       {"a-b,a-b-2013", "a-c,a-b-2013", `papers.csv:2:1: examKey: exam "a-c" is not in exams`},
		"unknown paper":      {"a-b-2013,2", "a-b-2014,2", `questions.csv:3:1: paperID: paper "a-b-2014" is not in papers`},
		"leading zero":       {"a-b-2013,2", "a-b-2013,02", `questions.csv:3:10: number: must be a number in digits`},
		"decimal comma":      {"1.5", `"1,5"`, `questions.csv:3:23: answer: must be a number in digits, with a point before decimals`},
		"beyond a float":     {"1.5", "9007199254740993", `questions.csv:3:23: answer: has more digits than a number can hold`},
		"no whole number":    {"a-b-2013,2", "a-b-2013,2.5", `questions.csv:3:10: number: must be a whole number`},
		"zero":               {"a-b-2013,2", "a-b-2013,0", `questions.csv:3:10: number: must be at least 1`},
		"unknown kind":       {"choice", "choise", `questions.csv:2:21: answerKind: must be choice, choices`},
		"no answer":          {"choice,A", "choice,", `questions.csv:2:28: answer: is required for the kind choice`},
		"annulled answer":    {"choice,A", "annulled,A", `questions.csv:2:30: answer: must be empty for the kind annulled`},
		"tolerance":          {"choice,A,", "choice,A,1", `questions.csv:2:30: tolerance: belongs to the kind number`},
		"error":              {",yes,", ",#REF!,", `questions.csv:2:14: A: is the error #REF!`},
		"letter not offered": {"choice,A", "choice,C", `questions.csv:2: answer: "C" is not among the options`},
		"empty option":       {",yes,", ",,", `questions.csv:2: answer: "A" is not among the options`},
		"question twice":     {"a-b-2013,2", "a-b-2013,1", `questions.csv:3: number: section 1 has a question 1 already`},
		"no JSON":            {`""pass_mark"": 5`, "pass_mark: 5", `exams.csv:2:7: scoring: must be a JSON object`},
		"character":          {",yes,", ",\x07,", `questions.csv:2: A: must not contain U+0007`},
		"bad URL":            {"https://example.org/", "example.org", `papers.csv:2: sourceURL: `},
		"API server's rule":  {"MIT,en", "MIT,x-klingon", "papers.csv:2: language: "},
		"no paper":           {"a-b,a-b-2013,P,2013,1,p,https://example.org/,MIT,en\n", "", `questions.csv:2:1: paperID: paper "a-b-2013" is not in papers`},
		"no question":        {questions, "paperID,number,prompt,answerKind\n", `papers.csv:2: paperID: paper a-b-2013 has no question`},
		"broken file":        {`,yes,`, `,y"es,`, `questions.csv:2:15: has a " inside a cell`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replace := func(text string) string { return strings.Replace(text, test.old, test.new, 1) }
			from := folder(t, map[string]string{"exams.csv": replace(exams), "papers.csv": replace(papers), "questions.csv": replace(questions)})
			out := filepath.Join(t.TempDir(), "out")
			report, err := ImportCSV(t.Context(), importer.Options{From: from, Out: out}, "")
			checkRefused(t, report, err, filepath.Join(from, test.want), out)
		})
	}
}

// checkRefused checks that a problem begins with want and that nothing is written.
func checkRefused(t *testing.T, report importer.Report, err error, want, out string) {
	t.Helper()
	if _, ok := errors.AsType[*content.ProblemsError](err); !ok {
		t.Fatalf("want a *ProblemsError, have %v", err)
	}
	if !slices.ContainsFunc(report.Problems, func(p content.Problem) bool { return strings.HasPrefix(p.String(), want) }) {
		t.Errorf("have %v\nwant %s", report.Problems, want)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

func TestCSVWithoutARequiredFileNamesIt(t *testing.T) {
	t.Parallel()
	from := folder(t, map[string]string{"exams.csv": exams, "questions.csv": ""})
	out := filepath.Join(t.TempDir(), "out")
	report, err := ImportCSV(t.Context(), importer.Options{From: from, Out: out}, "")
	checkRefused(t, report, err, from+": has no papers", out)
	checkRefused(t, report, err, filepath.Join(from, "questions.csv")+": is empty", out)
}

func TestCSVWarnsOfTextsThatProgramsChange(t *testing.T) {
	t.Parallel()
	changed := strings.Replace(questions, ",yes,no,", ",1.2E+15,=A1,", 1)
	from := folder(t, map[string]string{"exams.csv": exams, "papers.csv": papers, "questions.csv": changed})
	report, err := ImportCSV(t.Context(), importer.Options{From: from, Out: t.TempDir()}, "")
	check.NoError(t, err)
	check.Equal(t, len(report.Problems), 2, "warnings %v", report.Problems)
}

func TestListOfProblemsHasALimit(t *testing.T) {
	t.Parallel()
	rows := strings.Repeat("x,1,p,annulled\n", maxProblems+5)
	from := folder(t, map[string]string{"exams.csv": exams, "papers.csv": papers, "questions.csv": "paperID,number,prompt,answerKind\n" + rows})
	report, err := ImportCSV(t.Context(), importer.Options{From: from, Out: t.TempDir()}, "")
	check.Equal(t, len(report.Problems), maxProblems+1, "problems (%v)", err != nil)
	check.Contains(t, report.Problems[maxProblems].Detail, "more than 10000 problems", "the last problem")
}

// workbook writes the three sheets of the CSV files, with one cell changed by set.
func workbook(t *testing.T, set func(*excelize.File) error) string {
	t.Helper()
	book := excelize.NewFile()
	check.NoError(t, book.SetSheetName("Sheet1", "exams"))
	for sheet, text := range map[string]string{"exams": exams, "papers": papers, "questions": questions} {
		_, err := book.NewSheet(sheet)
		check.NoError(t, err)
		for row, line := range strings.Split(strings.TrimSpace(text), "\n") {
			if sheet == "exams" {
				line, _, _ = strings.Cut(line, ",\"")
			}
			for column, cell := range strings.Split(line, ",") {
				name, err := excelize.CoordinatesToCellName(column+1, row+1)
				check.NoError(t, err)
				check.NoError(t, book.SetCellStr(sheet, name, cell))
			}
		}
	}
	check.NoError(t, set(book))
	name := filepath.Join(t.TempDir(), "book.xlsx")
	check.NoError(t, book.SaveAs(name))
	check.NoError(t, book.Close())
	return name
}

func TestWorkbookProblemsNameSheetAndCell(t *testing.T) {
	t.Parallel()
	value := func(cell string, value any) func(*excelize.File) error {
		return func(book *excelize.File) error { return book.SetCellValue("questions", cell, value) }
	}
	scientific := func(book *excelize.File) error {
		style, err := book.NewStyle(&excelize.Style{NumFmt: 11})
		return errors.Join(err, book.SetCellValue("questions", "D2", 100000), book.SetCellStyle("questions", "D2", "D2", style))
	}
	zeros := func(book *excelize.File) error {
		format := "000"
		style, err := book.NewStyle(&excelize.Style{CustomNumFmt: &format})
		return errors.Join(err, book.SetCellValue("questions", "D2", 7), book.SetCellStyle("questions", "D2", "D2", style))
	}
	for name, test := range map[string]struct {
		set  func(*excelize.File) error
		want string
	}{
		"formula":         {func(b *excelize.File) error { return b.SetCellFormula("questions", "C2", "=A1") }, "questions!C2: prompt: is a formula"},
		"date":            {value("D2", time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC)), "questions!D2: A: is a date or a time"},
		"truth value":     {value("D2", true), "questions!D2: A: is a truth value"},
		"1E5":             {scientific, "questions!D2: A: is the number 100000, and the spreadsheet program may have changed the text"},
		"leading zeros":   {zeros, "questions!D2: A: is the number 7, and the spreadsheet program may have changed the text"},
		"many digits":     {value("D2", 1.2345678901234567e18), "questions!D2: A: is the number 1"},
		"text for number": {value("B3", "two"), "questions!B3: number: must be a number"},
		"rule":            {value("G2", "C"), `questions!G2: answer: "C" is not among the options`},
		"empty":           {value("C3", ""), "questions!C3: prompt: is required"},
		"name of a sheet": {func(b *excelize.File) error { _, err := b.NewSheet("Sections "); return err }, `the sheet "Sections " is not known (did you mean sections?)`},
		"merged":          {func(b *excelize.File) error { return b.MergeCell("questions", "A2", "A3") }, "questions: has merged cells A2:A3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, out := workbook(t, test.set), filepath.Join(t.TempDir(), "out")
			report, err := ImportXLSX(t.Context(), importer.Options{From: from, Out: out})
			checkRefused(t, report, err, from+": "+test.want, out)
		})
	}
}

func TestWorkbookTakesPlainNumbersAsTextsAndCountsOtherSheets(t *testing.T) {
	t.Parallel()
	from := workbook(t, func(book *excelize.File) error {
		_, err := book.NewSheet("notes")
		return errors.Join(err, book.SetCellValue("questions", "D2", 42), book.SetCellValue("questions", "B2", 1), book.SetCellValue("questions", "G3", 1.5))
	})
	report, err := ImportXLSX(t.Context(), importer.Options{From: from, Out: t.TempDir()})
	found := imported(t, report, err).Spec.Papers[0].Questions
	check.Equal(t, found[0].Options["A"], "42", "option")
	check.Equal(t, *found[1].Answer.Number, 1.5, "number")
	check.Equal(t, report.Ignored[from+": sheet notes"], 1, "ignored %v", report.Ignored)
}

func TestAnOldOrEncryptedWorkbookIsAProblem(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "old.xlsx")
	testkit.WriteFile(t, name, []byte("\xd0\xcf\x11\xe0 and so on"))
	out := filepath.Join(t.TempDir(), "out")
	report, err := ImportXLSX(t.Context(), importer.Options{From: name, Out: out})
	checkRefused(t, report, err, name+": has a password or the old format .xls", out)
}

func TestFromMustFitTheFormat(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	_, err := ImportXLSX(t.Context(), importer.Options{From: out, Out: out})
	_, err2 := ImportCSV(t.Context(), importer.Options{From: workbook(t, func(*excelize.File) error { return nil }), Out: out}, "")
	for _, err := range []error{err, err2} {
		if _, ok := errors.AsType[*InputError](err); !ok {
			t.Errorf("have %v, want an *InputError", err)
		}
	}
}

// Each column is read: a formula in any cell is a problem of that column.
func TestEachColumnIsRead(t *testing.T) {
	t.Parallel()
	for sheet, record := range fields.Records() {
		for i, column := range record.Columns() {
			t.Run(record.Sheet+" "+column, func(t *testing.T) {
				t.Parallel()
				name := filepath.Join(t.TempDir(), "template.xlsx")
				check.NoError(t, WriteTemplateXLSX(name))
				book, err := excelize.OpenFile(name)
				check.NoError(t, err)
				letter, err := excelize.ColumnNumberToName(i + 1)
				check.NoError(t, err)
				check.NoError(t, book.SetCellFormula(fields.Records()[sheet].Sheet, letter+"2", "=1+1"))
				if column == "tolerance" || column == "answer" {
					check.NoError(t, book.SetCellStr(record.Sheet, "Q2", "number"))
				}
				check.NoError(t, book.Save())
				check.NoError(t, book.Close())
				out := filepath.Join(t.TempDir(), "out")
				report, err := ImportXLSX(t.Context(), importer.Options{From: name, Out: out})
				checkRefused(t, report, err, name+": "+record.Sheet+"!"+letter+"2: "+column+": is a formula", out)
			})
		}
	}
}
