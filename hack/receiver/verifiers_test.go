package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v83/webhook"

	"examprep.dev/api/client"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/testenv"
	"examprep.dev/server/webhooks"
)

// packagesVariable names the variable that says where the packages of hack/npm are. hack/dev installs them for packages
// whose tests contain this name.
const packagesVariable = "EXAMPREP_TEST_NPM"

// A verification is a delivery as it reached a receiver, and whether it may be believed.
type verification struct {
	Name     string `json:"name"`
	Header   string `json:"header"`
	Body     []byte `json:"body"`
	Secret   string `json:"secret"`
	believed bool
	// stripeBelieves: Stripe's verifiers take a timestamp from the future, and read headers less strictly.
	stripeBelieves bool
	// stripeDiffer: they do not agree among themselves.
	stripeDiffer bool
}

// signature is v1 as the specification says it, not as the product makes it.
func signature(secret string, at int64, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%d.%s", at, body)
	return hex.EncodeToString(mac.Sum(nil))
}

func good(name, header string, body []byte, secret string) verification {
	return verification{Name: name, Header: header, Body: body, Secret: secret, believed: true, stripeBelieves: true}
}

func bad(name, header string, body []byte, secret string) verification {
	return verification{Name: name, Header: header, Body: body, Secret: secret}
}

func lax(v verification) verification { v.stripeBelieves = true; return v }

func differ(v verification) verification { v.stripeDiffer = true; return v }

// verifications are all cases, of deliveries that are sent now.
func verifications(now time.Time) []verification {
	secret, old := webhooks.NewSecret(), webhooks.NewSecret()
	body := []byte(`{"event":"mock_attempt.scored","created":1767225600,"data":{"attempt_id":"a-1","score":61.5,"note":"é试\\u0000"},"id":"x"}`)
	at := now.Unix()
	sign := func(at int64) string { return signature(secret, at, body) }
	right := webhooks.Sign([]string{secret}, now, body)
	both := webhooks.Sign([]string{secret, old}, now, body)
	stamp := fmt.Sprintf("t=%d", at)
	other := strings.Repeat("0", 64)
	signed := func(name string, body []byte) verification {
		return good(name, webhooks.Sign([]string{secret}, now, body), body, secret)
	}
	return []verification{
		good("as it was sent", right, body, secret),
		good("during a rotation, by the new secret", both, body, secret),
		good("during a rotation, by the old secret", both, body, old),
		good("290 seconds old", webhooks.Sign([]string{secret}, now.Add(-290*time.Second), body), body, secret),
		good("from a clock 290 seconds ahead", webhooks.Sign([]string{secret}, now.Add(290*time.Second), body), body, secret),
		good("another scheme behind it", right+",v0="+other, body, secret),
		good("another scheme before it", stamp+",v0="+other+",v2=x,v1="+sign(at), body, secret),
		good("a signature by another before it", stamp+",v1="+other+",v1="+sign(at), body, secret),
		good("the timestamp behind it", "v1="+sign(at)+","+stamp, body, secret),
		differ(good("digits in upper case", stamp+",v1="+strings.ToUpper(sign(at)), body, secret)),
		signed("line ends at its end", []byte("{}\r\n\n")),
		signed("a NUL in it", []byte("{\"a\":\"\x00\"}")),
		differ(signed("no UTF-8", []byte("{\"a\":\"\xff\xfe\"}"))),
		differ(signed("nothing in it", []byte{})),
		bad("the body changed", right, append([]byte(" "), body...), secret),
		bad("the body cut short", right, body[:len(body)-1], secret),
		bad("a line end behind the body", right, append(bytes.Clone(body), '\n'), secret),
		bad("the body formatted anew", right, bytes.ReplaceAll(body, []byte(":"), []byte(": ")), secret),
		bad("during a rotation, the body changed", both, append([]byte(" "), body...), old),
		bad("another secret", right, body, old),
		bad("during a rotation, another secret", both, body, webhooks.NewSecret()),
		bad("the secret without its mark", right, body, strings.TrimPrefix(secret, "whsec_")),
		bad("the timestamp changed", strings.Replace(right, stamp, fmt.Sprintf("t=%d", at+1), 1), body, secret),
		bad("the timestamp of an old one changed to now", stamp+",v1="+sign(at-3600), body, secret),
		bad("during a rotation, the timestamp changed", strings.Replace(both, stamp, fmt.Sprintf("t=%d", at-1), 1), body, old),
		bad("310 seconds old", webhooks.Sign([]string{secret}, now.Add(-310*time.Second), body), body, secret),
		lax(bad("from a clock 310 seconds ahead", webhooks.Sign([]string{secret}, now.Add(310*time.Second), body), body, secret)),
		bad("during a rotation, an hour old", webhooks.Sign([]string{secret, old}, now.Add(-time.Hour), body), body, old),
		bad("no header", "", body, secret),
		differ(bad("no secret", stamp+",v1="+signature("", at, body), body, "")),
		bad("no signature", stamp, body, secret),
		bad("no timestamp", "v1="+sign(at), body, secret),
		bad("another scheme alone", stamp+",v0="+sign(at), body, secret),
		bad("a signature cut short", right[:len(right)-2], body, secret),
		bad("a signature with a digit more", right+"0", body, secret),
		bad("a signature that is no hexadecimal", stamp+",v1="+strings.Repeat("z", 64), body, secret),
		bad("an empty signature", stamp+",v1=", body, secret),
		bad("a timestamp that is no number", "t=now,v1="+sign(at), body, secret),
		differ(bad("a timestamp with a sign", fmt.Sprintf("t=+%d,v1=%s", at, sign(at)), body, secret)),
		differ(bad("a timestamp with a fraction", fmt.Sprintf("t=%d.0,v1=%s", at, sign(at)), body, secret)),
		bad("an empty timestamp", "t=,v1="+sign(at), body, secret),
		bad("a negative timestamp", fmt.Sprintf("t=-%d,v1=%s", at, sign(at)), body, secret),
		bad("a timestamp of the far future, overflowing", "t=99999999999999999999999999,v1="+sign(at), body, secret),
		differ(bad("two timestamps", "t=1,"+right, body, secret)),
		bad("a space behind the comma", strings.Replace(right, ",", ", ", 1), body, secret),
		differ(bad("an element without a value", right+",v0", body, secret)),
		bad("other separators", strings.ReplaceAll(right, ",", ";"), body, secret),
		lax(bad("a header of 5,000 bytes", right+",v9="+strings.Repeat("0", 5000), body, secret)),
	}
}

// node is the Node that hack/npm pins.
func node(t *testing.T) (program, packages string) {
	t.Helper()
	packages, err := testenv.Lookup(packagesVariable)
	if err != nil {
		absent(t, "node", true)
	}
	return filepath.Join(packages, "bin", "node"), packages
}

// look returns the path of a program that the documented programs need.
func look(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		absent(t, program, program == "openssl")
	}
	return path
}

// absent skips a test whose program is not on this machine. It fails in continuous integration (CI=true) if make deps
// installs the program.
func absent(t *testing.T, program string, installed bool) {
	t.Helper()
	if installed && os.Getenv("CI") == "true" {
		t.Fatalf("there is no %s here: run the tests by make test, which installs it", program)
	}
	t.Skipf("SKIPPED, NOT TESTED: there is no %s here", program)
}

// documented returns the command of each program of docs/webhooks.md, without those whose interpreter is missing.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	commands := map[string][]string{}
	for name, program := range map[string]string{"verify.py": "python3", "verify.mjs": "node", "verify.ts": "node", "verify.sh": "openssl"} {
		t.Run(name, func(t *testing.T) {
			var path string
			switch program {
			case "node":
				path, _ = node(t)
			case "openssl":
				look(t, program)
				path = "sh"
			default:
				path = look(t, program)
			}
			commands[name] = []string{path, filepath.Join("verify", name)}
		})
	}
	return commands
}

// runProgram gives a delivery to a program and returns what it printed.
func runProgram(t *testing.T, command []string, v verification, environment ...string) (said string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], v.Header)...)
	cmd.Env = append(append(os.Environ(), environment...), "WEBHOOK_SECRET="+v.Secret)
	cmd.Stdin = bytes.NewReader(v.Body)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestDocumentedReceiversStoreAnEventOnce(t *testing.T) {
	secret := webhooks.NewSecret()
	body := func(event, note string) []byte {
		return fmt.Appendf(nil, `{"event":%q,"created":1,"data":{"attempt_id":"a-1","note":"\"dedupe_key\":\"x\"%s"},"id":"x","dedupe_key":"a-1:%s"}`, event, note, event)
	}
	deliver := func(secret string, body []byte) verification {
		return verification{Header: webhooks.Sign([]string{secret}, time.Now(), body), Body: body, Secret: secret}
	}
	forged := deliver(webhooks.NewSecret(), body("forged", ""))
	forged.Secret = secret
	for name, command := range documented(t) {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			first := deliver(secret, body("mock_attempt.submitted", "first"))
			for _, c := range []struct {
				name     string
				delivery verification
				want     string
			}{
				{"first delivery", first, "verified"},
				{"repetition", first, "repeated"},
				{"redelivery", deliver(secret, first.Body), "repeated"},
				{"another event of the attempt", deliver(secret, body("mock_attempt.scored", "")), "verified"},
				{"forgery", forged, "refused: no signature matches this secret and body"},
			} {
				if said, _ := runProgram(t, command, c.delivery, "WEBHOOK_EVENTS="+folder); said != c.want {
					t.Errorf("%s: %q, want %q", c.name, said, c.want)
				}
			}
			stored, err := filepath.Glob(filepath.Join(folder, "*"))
			if err != nil || len(stored) != 2 {
				t.Fatalf("%d files, %v; want one for each of two events", len(stored), err)
			}
			name := filepath.Join(folder, fmt.Sprintf("%x", sha256.Sum256([]byte("a-1:mock_attempt.submitted"))))
			if kept := testkit.ReadFile(t, name); !bytes.Equal(kept, first.Body) {
				t.Errorf("stored %q, want %q", kept, first.Body)
			}
		})
	}
}

// importers are programs of testdata that import a documented one and ask it about all cases, by the extension of the latter.
// Starting an interpreter for each case takes most of the time of such a test.
var importers = map[string]string{".mjs": "verify.mjs", ".ts": "verify.mjs", ".py": "verify.py"}

// asProgram are the names of the cases that a program with an importer is started for: its arguments, environment, standard input and
// exit status.
var asProgram = []string{"as it was sent", "line ends at its end", "no UTF-8", "the body changed", "no header", "no secret"}

func TestTheDocumentedVerifiersAgree(t *testing.T) {
	for name, command := range documented(t) {
		t.Run(name, func(t *testing.T) {
			importer, imported := importers[filepath.Ext(name)]
			started := 0
			for i := range verifications(time.Now()) {
				v := verifications(time.Now())[i] // signed now, however long those before took
				if imported && !slices.Contains(asProgram, v.Name) {
					continue
				}
				started++
				said, err := runProgram(t, command, v)
				checkVerdict(t, v, said, err)
			}
			if !imported {
				return
			}
			check.Equal(t, started, len(asProgram), "cases that the program was started for")
			now, program := time.Now(), command[len(command)-1]
			cases := verifications(now)
			verdicts := askAll(t, cases, command[0], filepath.Join("testdata", importer), program, strconv.FormatInt(now.UnixMilli(), 10))
			for i, v := range cases {
				if said := verdicts[i]; said != "verified" && !strings.HasPrefix(said, "refused: ") || (said == "verified") != v.believed {
					t.Errorf("%s: %q, want believed: %v", v.Name, said, v.believed)
				}
			}
		})
	}
	t.Run("Go", func(t *testing.T) {
		for _, v := range verifications(time.Now()) {
			err := client.Verify(v.Header, v.Body, v.Secret, time.Now(), client.Tolerance)
			if (err == nil) != v.believed {
				t.Errorf("%s: %v, want believed: %v", v.Name, err, v.believed)
			}
		}
	})
}

// askAll gives the cases to a program, as lines of JSON, and returns the line that it prints for each.
func askAll(t *testing.T, cases []verification, program string, arguments ...string) []string {
	t.Helper()
	var input, complaints bytes.Buffer
	lines := json.NewEncoder(&input)
	for _, v := range cases {
		check.NoError(t, lines.Encode(v))
	}
	cmd := exec.CommandContext(t.Context(), program, arguments...)
	cmd.Stdin, cmd.Stderr = &input, &complaints
	out, err := cmd.Output()
	check.NoErrorf(t, err, "%s: %s", program, &complaints)
	verdicts := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(verdicts) != len(cases) {
		t.Fatalf("%d verdicts on %d cases: %s", len(verdicts), len(cases), out)
	}
	return verdicts
}

// TestADeliveryIsRefusedWhenOpensslFailsInTheMiddle uses an openssl that knows the HMAC under the signing secret alone.
func TestADeliveryIsRefusedWhenOpensslFailsInTheMiddle(t *testing.T) {
	openssl := look(t, "openssl")
	for name, script := range map[string]string{
		"under the key made up": `case " $* " in *" -hmac $WEBHOOK_SECRET "* | *" rand "*) exec "$REAL_OPENSSL" "$@" ;; esac; exit 1`,
		"making up a key":       `case " $* " in *" rand "*) exit 1 ;; esac; exec "$REAL_OPENSSL" "$@"`,
		"making up no key":      `case " $* " in *" rand "*) exit 0 ;; esac; exec "$REAL_OPENSSL" "$@"`,
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "openssl"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			secret, body := webhooks.NewSecret(), []byte("{}")
			header := fmt.Sprintf("t=%d,v1=%s", time.Now().Unix(), strings.Repeat("0", 64))
			cmd := exec.CommandContext(t.Context(), "sh", filepath.Join("verify", "verify.sh"), header)
			cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret, "REAL_OPENSSL="+openssl, "PATH="+bin+":"+os.Getenv("PATH"))
			cmd.Stdin = bytes.NewReader(body)
			out, err := cmd.CombinedOutput()
			checkVerdict(t, verification{Name: name}, strings.TrimSpace(string(out)), err)
		})
	}
}

// checkVerdict holds a program's end and last words against what a case should come to.
func checkVerdict(t *testing.T, v verification, said string, err error) {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case v.believed && (err != nil || said != "verified"):
		t.Errorf("%s: %v, %q, want verified", v.Name, err, said)
	case !v.believed && (!errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasPrefix(said, "refused: ")):
		t.Errorf("%s: %v, %q, want refused", v.Name, err, said)
	}
}

func TestStripesVerifierForGoAgrees(t *testing.T) {
	for _, v := range verifications(time.Now()) {
		err := webhook.ValidatePayloadWithTolerance(v.Body, v.Header, v.Secret, client.Tolerance)
		if !v.stripeDiffer && (err == nil) != v.stripeBelieves {
			t.Errorf("%s: %v, want believed: %v", v.Name, err, v.stripeBelieves)
		}
	}
}

func TestStripesVerifierForJavaScriptAgrees(t *testing.T) {
	program, packages := node(t)
	cases := verifications(time.Now())
	verdicts := askAll(t, cases, program, filepath.Join("testdata", "stripe.mjs"), packages)
	for i, v := range cases {
		if believed := verdicts[i] == "true"; !v.stripeDiffer && believed != v.stripeBelieves {
			t.Errorf("%s: believed: %v, want %v", v.Name, believed, v.stripeBelieves)
		}
	}
}
