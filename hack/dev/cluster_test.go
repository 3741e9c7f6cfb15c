package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"examprep.dev/hack/dev/state"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func exampleEnvironment(t *testing.T) *environment {
	t.Helper()
	return &environment{
		dir: state.Dir(t.TempDir()), origin: "http://127.0.0.1:1", apiURL: "http://127.0.0.1:1/v1", consoleURL: "http://127.0.0.1:1/console/",
		receiverURL: "https://127.0.0.1:2/", apiKey: "service_0",
	}
}

func TestTheConsoleIsTheFirstLink(t *testing.T) {
	first := regexp.MustCompile(`https?://\S+`).FindString(exampleEnvironment(t).help())
	check.Equal(t, first, "http://127.0.0.1:1/console/", "first link")
}

func TestScriptsFindTheConsole(t *testing.T) {
	e := exampleEnvironment(t)
	check.NoError(t, e.writeEnv())
	check.Contains(t, string(testkit.ReadFile(t, e.dir.Path(state.EnvFile))), "\nCONSOLE_URL=http://127.0.0.1:1/console/\n", "env file")
}

func TestASampleDeclaresAnEndpointOfTheAccount(t *testing.T) {
	objects, err := readSamples(filepath.Join("..", "..", samples))
	check.NoError(t, err)
	pointAt(objects, "https://127.0.0.1:2/")
	addresses := map[string]string{} // of the endpoints, by account
	for _, o := range objects {
		if o.text("kind") == "WebhookEndpoint" {
			addresses[o.part("spec").text("account")] = o.part("spec").text("url")
		}
	}
	if len(addresses) != 2 || addresses[account] != "https://127.0.0.1:2/account" || addresses[""] != "https://127.0.0.1:2/hook" {
		t.Errorf("endpoints by account: %v", addresses)
	}
}

func TestAFailedSeedIsReported(t *testing.T) {
	e, out := exampleEnvironment(t), new(testkit.Record)
	e.console = newConsole(out)
	check.NoError(t, os.MkdirAll(e.dir.Path("bin"), 0o755))
	for _, c := range []struct{ name, script, want string }{
		{"fails", "echo 'seed: no account' >&2; exit 1", "the account dev lacks sample data: seed -api http://127.0.0.1:1/v1"},
		{"makes something", "echo made keys", "made keys\n"},
	} {
		check.NoError(t, os.WriteFile(e.dir.Path("bin", "seed"), []byte("#!/bin/sh\n"+c.script+"\n"), 0o700))
		e.seed(t.Context())
		check.Contains(t, out.String(), c.want, c.name)
	}
	check.Contains(t, out.String(), "seed: no account", "reason")
}
