package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"examprep.dev/api/client"
	"examprep.dev/server/testkit"
	"examprep.dev/server/webhooks"
)

func TestThePageQuotesTheFilesThatAreTested(t *testing.T) {
	root := filepath.Join("..", "..")
	page := testkit.ReadFile(t, filepath.Join(root, "docs", "webhooks.md"))
	quoted := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)<!-- (\\S+) -->\n```[a-z]+\n(.*?)```\n").FindAllSubmatch(page, -1) {
		name := string(block[1])
		file, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(file, block[2]) {
			t.Errorf("the page quotes another %s than there is", name)
		}
		quoted[name] = true
	}
	if blocks := bytes.Count(page, []byte("\n```\n")); blocks != len(quoted) {
		t.Errorf("%d blocks of code, but %d of them are files", blocks, len(quoted))
	}
	programs, err := filepath.Glob("verify/*")
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{"api/client/example_test.go"}
	for _, program := range programs {
		shown = append(shown, "hack/receiver/"+filepath.ToSlash(program))
	}
	if len(shown) < 5 {
		t.Errorf("%d programs found", len(shown))
	}
	for _, name := range shown {
		if !quoted[name] {
			t.Errorf("the page does not show %s", name)
		}
	}
}

func TestTheDeliveryOfThePageHasItsSignature(t *testing.T) {
	page := testkit.ReadFile(t, filepath.Join("..", "..", "docs", "webhooks.md"))
	shown := regexp.MustCompile("(?m)^    Service-Signature: (t=.*)\n\n    (.*)$").FindSubmatch(page)
	secret := regexp.MustCompile("secret `(whsec_[a-z]+)` signs").FindSubmatch(page)
	if shown == nil || secret == nil {
		t.Fatal("the page shows no delivery, or no secret")
	}
	if err := client.Verify(string(shown[1]), shown[2], string(secret[1]), time.Unix(1767225600, 0), time.Minute); err != nil {
		t.Error(err)
	}
}

func TestADeliveryThatCurlSendsVerifies(t *testing.T) {
	for _, program := range []string{"curl", "openssl"} {
		look(t, program)
	}
	secret := webhooks.NewSecret()
	body := []byte("{\"event\":\"mock_attempt.scored\",\"data\":{\"a\":\"é\"}}\r\n")
	secrets := filepath.Join(t.TempDir(), "secrets")
	testkit.WriteFile(t, secrets, []byte(secret))
	var log, shown bytes.Buffer
	server := httptest.NewTLSServer(&receiver{secretFile: secrets, now: time.Now, log: &log, show: &shown})
	defer server.Close()
	authority := testkit.CAFile(t, server)
	for key, want := range map[string]string{secret: "200", webhooks.NewSecret(): "400"} {
		cmd := exec.CommandContext(t.Context(), "sh", "verify/send.sh", server.URL+"/hook", "--cacert", authority)
		cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+key)
		cmd.Stdin = bytes.NewReader(body)
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); got != want || (err == nil) != (want == "200") {
			t.Errorf("%q, %v, want %s", got, err, want)
		}
	}
	if verified := strings.Count(log.String(), `"verified":true`); verified != 1 {
		t.Errorf("%d verified, want 1: %s", verified, log.String())
	}
	if text := shown.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "verified  mock_attempt.scored") || !strings.Contains(text, "refused (webhook signature: wrong_signature") {
		t.Errorf("shown: %s", text)
	}
}

func TestWhatIsShownOfADeliveryIsOneLineWhateverItHolds(t *testing.T) {
	var log, shown bytes.Buffer
	r := &receiver{now: time.Now, log: &log, show: &shown}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{\"event\":\"a\\n\\u001b[2Jb\"}"))
	request.Header.Set("Webhook-Id", "x\x1b[31m")
	request.Header.Set(client.SignatureHeader, "t=1")
	r.ServeHTTP(httptest.NewRecorder(), request)
	text := strings.TrimSuffix(shown.String(), "\n")
	if text == "" || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		t.Errorf("shown: %q", text)
	}
}
