package command

import (
	"bytes"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
)

func runCheck(args ...string) (code int, stdout, stderr string) {
	var out, errors bytes.Buffer
	code = patient().Execute(append([]string{"check", "--timeout", testkit.Patience.String()}, args...), strings.NewReader(""), &out, &errors)
	return code, out.String(), errors.String()
}

func TestACheckOpensAndSubmitsARealPaper(t *testing.T) {
	i := newInstallation(t)
	url := "--url=http://" + startAPI(t, i).address + "/v1"

	if code, out, failed := runCheck(url); code != 0 || !strings.Contains(out, "SKIPPED") {
		t.Errorf("without a key: exit code %d, %q, %s", code, out, failed)
	}
	key, _ := i.execute(t, "keys", "create", "--account", "checker")["key"].(string)
	if code, out, failed := runCheck(url, "--api-key", key); code != 0 || !strings.Contains(out, "SKIPPED") {
		t.Errorf("with nothing published: exit code %d, %q, %s", code, out, failed)
	}
	if code, _, failed := runCheck(url, "--api-key", key, "--exam", "no-such-exam"); code != 1 || !strings.Contains(failed, "no-such-exam") {
		t.Errorf("an exam that is not there: exit code %d, %s", code, failed)
	}
	other := key[:len(key)-1] + string('0'+(key[len(key)-1]+1)%10)
	if code, _, failed := runCheck(url, "--api-key", other); code != 1 || !strings.Contains(failed, "401") {
		t.Errorf("a key that was never issued: exit code %d, %s", code, failed)
	}

	var out, failed bytes.Buffer
	if code := patient().Execute([]string{"content", "publish", "--database-url", i.flags[1], "../../config/samples"}, strings.NewReader(""), &out, &failed); code != 0 {
		t.Fatalf("publish: exit code %d: %s", code, failed.String())
	}
	testkit.Eventually(t, "a paper is opened and submitted", func() bool {
		code, out, _ := runCheck(url, "--api-key", key)
		return code == 0 && strings.Contains(out, "ok: opened sample-geography-2025 of sample-geography")
	})
}

func TestACheckOfNothingFails(t *testing.T) {
	if code, _, failed := runCheck("--url=http://127.0.0.1:1/v1", "--timeout=1s"); code != 1 || !strings.Contains(failed, "401") {
		t.Errorf("nobody listens: exit code %d, %s", code, failed)
	}
	if code, _, failed := runCheck(); code != 2 || !strings.Contains(failed, "--url") {
		t.Errorf("no URL: exit code %d, %s", code, failed)
	}
}
