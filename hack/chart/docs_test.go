package chart_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{"../../README.md": read(t, "../../README.md")}
	for _, root := range []string{folder, "../../docs"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && slices.Contains([]string{".md", ".yaml", ".txt", ".json"}, filepath.Ext(path)) {
				found[path] = read(t, path)
			}
			return err
		})
		noError(t, err)
	}
	return found
}

// redis-cli sends no password where the URL names no user, and says NOAUTH.
func TestEveryURLOfRedisWorksWithItsOwnClient(t *testing.T) {
	seen := 0
	for path, text := range pages(t) {
		seen += strings.Count(text, "redis://default:")
		for _, url := range regexp.MustCompile(`(?:rediss?|sentinel|cluster)://:\S+`).FindAllString(text, -1) {
			t.Errorf("%s: %s names no user", path, url)
		}
	}
	if seen == 0 {
		t.Error("no page shows a URL of Redis: the test sees nothing")
	}
}

// psql and pg_dump refuse a URL with a parameter that is pgx's alone.
func TestPagesShowNoURLThatPsqlRefuses(t *testing.T) {
	for path, text := range pages(t) {
		if strings.Contains(text, "?pool_") || strings.Contains(text, "&pool_") {
			t.Errorf("%s puts a setting of the pool into the URL", path)
		}
	}
	for component, size := range map[string]string{"api": "11", "worker": "12", "operator": "13"} {
		pod := find(t, render(t, "--set", component+".poolMaxConns="+size), "Deployment", "r-examprep-"+component)
		if got := variables(containerOf(t, pod))["EXAMPREP_POOL_MAX_CONNS"]; got != size {
			t.Errorf("%s has %v connections, want %s", component, got, size)
		}
	}
}

// Without -e redis-cli exits 0 after an error, and a restore continues with the old data of Redis.
func TestARestoreStopsWhereRedisIsNotEmptied(t *testing.T) {
	seen := 0
	for path, text := range pages(t) {
		for line := range strings.Lines(text) {
			if !strings.Contains(line, "redis-cli") || !strings.Contains(line, "FLUSHDB") {
				continue
			}
			seen++
			onCluster := strings.Contains(line, "--cluster call") && strings.Contains(line, "--cluster-only-masters")
			if !onCluster && !strings.Contains(line, "redis-cli -e ") {
				t.Errorf("%s: %q goes on after an error", path, strings.TrimSpace(line))
			}
		}
	}
	if seen < 3 {
		t.Errorf("%d lines empty Redis: one node, Sentinel and a cluster need one each", seen)
	}
}

// kubectl does not accept kustomization.yaml as a resource, and the sample endpoint would receive the attempts of all accounts.
func TestTheFirstExamIsAppliedAlone(t *testing.T) {
	page := read(t, filepath.Join(folder, "README.md"))
	if strings.Contains(page, "-f config/samples ") || strings.Contains(page, "-f config/samples`") {
		t.Error("the page applies the whole folder of samples")
	}
	files := regexp.MustCompile(`-f (config/samples/\S+)`).FindAllStringSubmatch(page, -1)
	if len(files) == 0 {
		t.Error("the page applies no sample")
	}
	exams := 0
	for _, file := range files {
		for _, o := range decode(t, read(t, "../../"+file[1])) {
			if kind := o.text("kind"); kind != "ExamContent" && kind != "ConfigMap" {
				t.Errorf("%s brings a %s", file[1], kind)
			}
			if o.text("kind") == "ExamContent" {
				exams++
			}
		}
	}
	if exams != 1 {
		t.Errorf("%d exams", exams)
	}
}

// The migration is a hook and needs its Secret before helm has made anything, the namespace too.
func TestPagesCreateSecretsBeforeTheyInstall(t *testing.T) {
	for path, text := range pages(t) {
		if strings.Contains(text, "--create-namespace") {
			t.Errorf("%s installs into a namespace that holds no Secret", path)
		}
	}
}

// onPage returns the blocks of docs/install.md that follow a comment "test: values.yaml", as files of values.
func onPage(t *testing.T) []string {
	t.Helper()
	var files []string
	page := read(t, "../../docs/install.md")
	for _, block := range regexp.MustCompile("(?s)<!-- test: (values.yaml [^>]+) -->\n```yaml\n(.*?)```").FindAllStringSubmatch(page, -1) {
		file := filepath.Join(t.TempDir(), strings.ReplaceAll(block[1], " ", "-"))
		noError(t, os.WriteFile(file, []byte(block[2]), 0o600))
		files = append(files, file)
	}
	if len(files) != 3 {
		t.Fatalf("%d blocks of values, want 3", len(files))
	}
	return files
}

func TestValuesOfTheInstallPageLeadTLSAndAlerts(t *testing.T) {
	files := onPage(t)
	for kind, values := range map[string][]string{"Ingress": {files[0], files[2]}, "HTTPRoute": {files[0], files[1], files[2]}} {
		args := []string{"--set", "ingress.enabled=" + strconv.FormatBool(kind == "Ingress")}
		for _, file := range values {
			args = append(args, "-f", file)
		}
		objects := render(t, args...)
		if got := variables(containerOf(t, find(t, objects, "Deployment", "r-examprep-api")))["EXAMPREP_TRUSTED_PROXIES"]; got != "10.244.0.0/16" {
			t.Errorf("%s: the API trusts %v", kind, got)
		}
		entry := find(t, objects, kind, "r-examprep-api")
		shown := fmt.Sprint(entry.at("spec", "tls"), entry.at("spec", "hostnames"))
		if want := map[string]string{"Ingress": "secretName:examprep-tls", "HTTPRoute": "api.example.com"}[kind]; !strings.Contains(shown, want) {
			t.Errorf("%s: %v", kind, entry.at("spec"))
		}
		for _, kind := range []string{"PodMonitor", "PrometheusRule"} {
			if label := find(t, objects, kind, "r-examprep").text("metadata", "labels", "release"); label != "kube-prometheus-stack" {
				t.Errorf("%s has the label release=%q", kind, label)
			}
		}
	}
}

// An API pod has six connections outside its pool; a test of server/command counts them. An upgrade has twice the pods, because
// pods that end keep their connections.
func TestTheInstallPageCountsConnections(t *testing.T) {
	extra := map[string]int{"api": 6, "worker": 0, "operator": 0}
	want, files := map[string][]int{"all": make([]int, 6)}, onPage(t)
	for n, args := range [][]string{nil, {"-f", files[0]}} {
		objects := render(t, args...)
		for component, more := range extra {
			deployment := find(t, objects, "Deployment", "r-examprep-"+component)
			pool, err := strconv.Atoi(fmt.Sprint(variables(containerOf(t, deployment))["EXAMPREP_POOL_MAX_CONNS"]))
			noError(t, err)
			pods, err := strconv.Atoi(fmt.Sprint(deployment.at("spec", "replicas")))
			noError(t, err)
			want[component] = append(want[component], pool+more, pods*(pool+more), 2*pods*(pool+more))
			for i := 1; i < 3; i++ {
				want["all"][3*n+i] += want[component][3*n+i]
			}
		}
	}
	for component, numbers := range want {
		row := regexp.MustCompile("(?m)^\\| `?" + component + "`? \\|(.*)\\|$").FindStringSubmatch(read(t, "../../docs/install.md"))
		if row == nil {
			t.Fatalf("the page has no connections of %s", component)
		}
		for i, cell := range strings.Split(row[1], "|") {
			number, _ := strconv.Atoi(strings.TrimSpace(cell)) // an empty cell is 0, as in want
			if number != numbers[i] {
				t.Errorf("%s, column %d: the page has %d, want %d", component, i, number, numbers[i])
			}
		}
	}
	if most := want["all"][5]; most+2 > 97 {
		t.Errorf("an upgrade with the page's values needs %d connections and 2 for the migration, of 97", most)
	}
}

// Workers add partitions, which only the owner of a table can do. The role of the migrations owns the tables.
func TestNoExampleGivesPodsAnotherRoleThanTheMigrations(t *testing.T) {
	for name, values := range examples(t) {
		objects := render(t, values...)
		if !slices.ContainsFunc(objects, func(o object) bool { return o.text("metadata", "name") == "r-examprep-worker" }) {
			continue // a shard of the operator
		}
		worker := containerOf(t, find(t, objects, "Deployment", "r-examprep-worker"))
		migration := containerOf(t, find(t, objects, "Job", "r-examprep-migrate"))
		if got, want := secretOf(worker, "DATABASE_URL"), secretOf(migration, "DATABASE_URL"); got != want || got == "" {
			t.Errorf("%q: workers use %s, the migration %s", name, got, want)
		}
	}
}

func secretOf(container object, variable string) string {
	list, _ := container.at("env").([]any)
	for _, entry := range list {
		found := object(entry.(map[string]any)) //nolint:errcheck // a variable is an object
		if found.text("name") == variable {
			return found.text("valueFrom", "secretKeyRef", "name") + "/" + found.text("valueFrom", "secretKeyRef", "key")
		}
	}
	return ""
}
