package command

import (
	"io"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
)

func stderrOf(t *testing.T, args ...string) []string {
	t.Helper()
	var stderr strings.Builder
	if code := patient().Execute(args, strings.NewReader(""), io.Discard, &stderr); code != 2 {
		t.Fatalf("examprep %v: exit code %d, want 2: %s", args, code, stderr.String())
	}
	return strings.Split(strings.TrimSpace(stderr.String()), "\n")
}

func TestProcessLogsAnUnknownVariable(t *testing.T) {
	t.Setenv("EXAMPREP_ENVIRONNMENT", "production")
	for _, process := range []string{"api", "worker", "operator"} {
		lines := stderrOf(t, process) // it lacks its settings
		var record struct {
			Level   string `json:"level"`
			Msg     string `json:"msg"`
			Process string `json:"process"`
		}
		testkit.Decode(t, []byte(lines[0]), &record)
		const want = "EXAMPREP_ENVIRONNMENT: no command has a flag for this variable; did you mean EXAMPREP_ENVIRONMENT?"
		if record.Level != "WARN" || record.Msg != want || record.Process != process || len(lines) != 2 {
			t.Errorf("%s: %q, want one warning %q and the error", process, lines, want)
		}
	}
}

func TestLogLevelAppliesToWarningsOfUnknownVariables(t *testing.T) {
	t.Setenv("EXAMPREP_ENVIRONNMENT", "production")
	t.Setenv("EXAMPREP_LOG_LEVEL", "error")
	if lines := stderrOf(t, "worker"); len(lines) != 1 || strings.Contains(lines[0], "ENVIRONNMENT") {
		t.Errorf("%q, want the error alone", lines)
	}
	t.Setenv("EXAMPREP_LOG_LEVEL", "loud")
	if lines := stderrOf(t, "worker"); len(lines) != 2 || !strings.HasPrefix(lines[0], "examprep: EXAMPREP_ENVIRONNMENT: ") {
		t.Errorf("%q, want the warning as text and the error", lines)
	}
}

func TestCommandWithoutLogWarnsOnStandardError(t *testing.T) {
	t.Setenv("EXAMPREP_ENVIRONNMENT", "production")
	t.Setenv("EXAMPREP_FROBNICATE", "top-secret")
	for _, args := range [][]string{{"migrate"}, {"keys", "create"}, {"keys", "list"}, {"check"}} {
		lines := stderrOf(t, args...)
		want := []string{
			"examprep: EXAMPREP_ENVIRONNMENT: no command has a flag for this variable; did you mean EXAMPREP_ENVIRONMENT?",
			"examprep: EXAMPREP_FROBNICATE: no command has a flag for this variable",
		}
		if len(lines) != 3 || !slices.Equal(lines[:2], want) {
			t.Errorf("examprep %v: %q, want %q and the error", args, lines, want)
		}
	}
}

func TestOnlyVariablesOfNoCommandAreUnknown(t *testing.T) {
	known := flagVariables(newRoot(patient()))
	// The kubelet sets these for a Service examprep-api.
	const kubelet = "EXAMPREP_API_SERVICE_HOST=10.0.0.1 EXAMPREP_API_SERVICE_PORT=80 EXAMPREP_API_SERVICE_PORT_HTTP=80 EXAMPREP_API_PORT=tcp://10.0.0.1:80 " +
		"EXAMPREP_API_PORT_80_TCP=tcp://10.0.0.1:80 EXAMPREP_API_PORT_80_TCP_ADDR=10.0.0.1"
	for _, c := range []struct{ environment, want string }{
		{"PATH=/bin OTEL_EXPORTER_OTLP_ENDPOINT=http://a EXAMPREPARE=1", ""},
		{"EXAMPREP_LISTEN=:1 EXAMPREP_WATCH_NAMESPACES=a", ""},
		{"EXAMPREP_API_KEY=a EXAMPREP_OUTPUT=json", ""},
		{"EXAMPREP_LISTENER=", ""},
		{"EXAMPREP_TEST_DATABASE_URL=a", ""},
		{"DATABASE_URL=a EXAMPREP_DATABASE_URL=a", "EXAMPREP_DATABASE_URL"},
		{"EXAMPREP_B=1 EXAMPREP_A=1", "EXAMPREP_A EXAMPREP_B"},
		{"EXAMPREP_HELP=1 EXAMPREP_VERSION=1", "EXAMPREP_HELP EXAMPREP_VERSION"},
		{kubelet, ""},
		{"EXAMPREP_API_SERVICE_HOST=10.0.0.1 EXAMPREP_WEB_PORT=tcp://10.0.0.1:80", "EXAMPREP_WEB_PORT"},
	} {
		environment, want := c.environment, c.want
		if got := unknownVariables(strings.Fields(environment), known); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v, want [%s]", environment, got, want)
		}
	}
}

func TestSuggestionsAreVariablesWithSimilarNames(t *testing.T) {
	known := flagVariables(newRoot(patient()))
	for name, want := range map[string]string{
		"EXAMPREP_LOGLEVEL":     "EXAMPREP_LOG_LEVEL",
		"EXAMPREP_LOG_LVEL":     "EXAMPREP_LOG_LEVEL",
		"EXAMPREP_DATABASE_URL": "DATABASE_URL",
		"EXAMPREP_REDIS_URI":    "REDIS_URL",
		"EXAMPREP_WATCH":        "EXAMPREP_WATCH_NAMESPACES",
		"EXAMPREP_TRUST":        "EXAMPREP_TRUSTED_PROXIES EXAMPREP_TRUSTED_VERIFIERS EXAMPREP_TRUST_TRACEPARENT",
		"EXAMPREP_SESSION_TIME": "",
		"EXAMPREP_":             "",
	} {
		if got := suggestions(name, known); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v, want [%s]", name, got, want)
		}
	}
}
