package sheet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"

	"examprep.dev/server/content/fields"
	"examprep.dev/server/content/importer"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// officeVariable is set by make sheets.
const officeVariable = "SHEET_TEST_LIBREOFFICE"

// convert lets LibreOffice save a file in another format.
func convert(t *testing.T, file, format, out string) {
	t.Helper()
	profile := "-env:UserInstallation=file://" + t.TempDir()
	command := exec.CommandContext(t.Context(), "soffice", profile, "--headless", "--convert-to", format, "--outdir", out, file)
	text, err := command.CombinedOutput()
	check.NoErrorf(t, err, "%s", text)
}

// LibreOffice opens the template and saves it as XLSX and CSV. Both import as the template does, also texts that look like numbers.
func TestTheTemplateSurvivesLibreOffice(t *testing.T) {
	if os.Getenv(officeVariable) == "" {
		t.Skip("make sheets runs LibreOffice")
	}
	template, saved := filepath.Join(t.TempDir(), "template.xlsx"), t.TempDir()
	check.NoError(t, WriteTemplateXLSX(template))
	book, err := excelize.OpenFile(template)
	check.NoError(t, err)
	for cell, text := range map[string]string{"F2": "007", "G2": "1E5", "H2": "12345678901234567890", "I2": "1.50", "J2": "é ≤ \"x\"; y,\nz", "K2": "true"} {
		check.NoError(t, book.SetCellStr("questions", cell, text))
	}
	check.NoError(t, book.Save())
	check.NoError(t, book.Close())
	report, err := ImportXLSX(t.Context(), importer.Options{From: template, Out: t.TempDir()})
	want := string(testkit.Encode(t, imported(t, report, err).Spec))
	for _, text := range []string{`"007"`, `"1E5"`, `"1.50"`} {
		check.Contains(t, want, text, "the template")
	}

	convert(t, template, "xlsx", saved)
	report, err = ImportXLSX(t.Context(), importer.Options{From: filepath.Join(saved, "template.xlsx"), Out: t.TempDir()})
	check.Equal(t, string(testkit.Encode(t, imported(t, report, err).Spec)), want, "the workbook that LibreOffice saved")

	// Comma, quotation marks, UTF-8, all sheets.
	convert(t, filepath.Join(saved, "template.xlsx"), "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,-1", saved)
	for _, record := range fields.Records() {
		check.NoError(t, os.Rename(filepath.Join(saved, "template-"+record.Sheet+".csv"), filepath.Join(saved, record.Sheet+".csv")))
	}
	report, err = ImportCSV(t.Context(), importer.Options{From: saved, Out: t.TempDir()}, "")
	check.NoError(t, err)
	for _, problem := range report.Problems { // of 1E5 and the like
		if !strings.Contains(problem.String(), "warning") {
			t.Error(problem)
		}
	}
	check.Equal(t, string(testkit.Encode(t, imported(t, report, err).Spec)), want, "the CSV files that LibreOffice saved")
}
