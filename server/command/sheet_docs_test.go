package command

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"examprep.dev/hack/dev/state"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// walk is the first section of docs/exams.md: the files that it shows, and the lines of its commands.
func walk(t *testing.T) (files map[string]string, commands []string) {
	t.Helper()
	_, page, _ := strings.Cut(string(testkit.ReadFile(t, "../../docs/exams.md")), "## Three exams in a sheet\n")
	page, _, _ = strings.Cut(page, "\n## ")
	files = make(map[string]string)
	for _, block := range regexp.MustCompile("(?s)`([a-z.]+)`:\n\n```csv\n(.*?)```").FindAllStringSubmatch(page, -1) {
		files[block[1]] = block[2]
	}
	for _, command := range regexp.MustCompile(`(?m)^    (examprep|curl) .*$`).FindAllString(strings.ReplaceAll(page, "\\\n", " "), -1) {
		commands = append(commands, strings.TrimSpace(command))
	}
	return files, commands
}

// afterSetup returns the value of DATABASE_URL after the page's lines, in a folder as `make dev` leaves it. Its program can then be called.
func afterSetup(t *testing.T, databaseURL string) string {
	t.Helper()
	folder := t.TempDir()
	writeEnvironment(t, folder, state.Variable{Name: "DATABASE_URL", Value: databaseURL})
	check.NoError(t, os.Mkdir(filepath.Join(folder, "bin"), 0o755))
	check.NoError(t, os.WriteFile(filepath.Join(folder, "bin", "examprep"), []byte("#!/bin/sh\nprintenv DATABASE_URL"), 0o755))
	shell := exec.CommandContext(t.Context(), "sh", "-euc", environmentLines(t, "exams.md")+"examprep content publish exams/")
	shell.Dir = folder
	out, err := shell.Output()
	check.NoErrorf(t, err, "the lines before the first command")
	return strings.TrimSpace(string(out))
}

// post sends a request as one of the page's commands does, and returns the body of a 200.
func post(t *testing.T, url, key, body string) string {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	check.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	check.NoError(t, err)
	defer func() { check.NoError(t, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	check.NoError(t, err)
	if response.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// The page's files become served questions by the page's commands, in this order.
func TestThreeExamsInASheetAreServed(t *testing.T) {
	i := newInstallation(t)
	url := "http://" + startAPI(t, i).address + "/v1"
	files, commands := walk(t)
	folder := t.TempDir()
	written, _, _ := strings.Cut(i.flags[1], "&") // sh ends a command at &
	database := afterSetup(t, written)
	key, responses := "", []string{}
	for _, command := range commands {
		words := strings.Fields(command)
		switch {
		case words[0] == "curl":
			path := words[len(words)-1]
			body := regexp.MustCompile(`-d '([^']*)'`).FindStringSubmatch(command)
			body = append(body, "", "")
			wants := []string{"bridge-licence"}
			if strings.HasSuffix(path, "/list") { // a pod reads published exams one by one
				wants = append(wants, "harbour-pilot", "lock-keeper")
			}
			testkit.Eventually(t, command, func() bool {
				text := post(t, strings.Replace(path, "$API_URL", url, 1), key, body[1])
				responses = append(responses, text)
				return !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(text, want) })
			})
		case words[1] == "keys":
			key, _ = i.execute(t, words[1:]...)["key"].(string)
		default:
			runOnPage(t, database, folder, words[1:])
		}
		if strings.Contains(command, "template") {
			fillIn(t, filepath.Join(folder, "sheet"), files)
		}
	}
	all := strings.Join(responses, "\n")
	for _, want := range []string{"harbour-pilot", "lock-keeper", "Which light lets a ship pass?", "two reds", `"1:2"`} {
		check.Contains(t, all, want, "what is served")
	}
}

// fillIn replaces the template by the page's files.
func fillIn(t *testing.T, sheet string, files map[string]string) {
	t.Helper()
	check.Equal(t, len(files), 3, "files on the page")
	for _, optional := range []string{"sections.csv", "links.csv", "steps.csv"} {
		check.NoError(t, os.Remove(filepath.Join(sheet, optional)))
	}
	for name, text := range files {
		if _, err := os.Stat(filepath.Join(sheet, name)); err != nil {
			t.Errorf("the template has no %s", name)
		}
		testkit.WriteFile(t, filepath.Join(sheet, name), []byte(text))
	}
}

// runOnPage runs a command of the page with its folders below folder.
func runOnPage(t *testing.T, database, folder string, args []string) {
	t.Helper()
	for n, arg := range args {
		if strings.HasSuffix(arg, "/") {
			args[n] = filepath.Join(folder, arg)
		}
	}
	if args[1] == "publish" {
		args = append(args, "--database-url", database)
	}
	var out, failed bytes.Buffer
	if code := patient().Execute(args, strings.NewReader(""), &out, &failed); code != 0 {
		t.Fatalf("%v: exit code %d: %s%s", args, code, out.String(), failed.String())
	}
}

func TestTheTemplateIsReportedInJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "exams.xlsx")
	stdout, _ := ran(t, 0, "content", "template", "--format", "xlsx", "--out", file, "-o", "json")
	var report struct {
		Files []string `json:"files"`
	}
	check.NoError(t, json.Unmarshal([]byte(stdout), &report))
	check.Slices(t, report.Files, []string{file}, "files")
	_, stderr := ran(t, 1, "content", "template", "--format", "xlsx", "--out", file)
	check.Contains(t, stderr, "file exists", "error")
}
