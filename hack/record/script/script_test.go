package script_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"examprep.dev/api/openapi"
	"examprep.dev/hack/record/script"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestNamesOfExchangesAreUniqueAndCanBeListed(t *testing.T) {
	seen := make(map[string]bool)
	for _, group := range script.Groups() {
		for _, exchange := range group.Exchanges {
			if seen[exchange.Name] {
				t.Errorf("two exchanges are named %s", exchange.Name)
			}
			seen[exchange.Name] = true
			if strings.ContainsAny(exchange.Name, " \t*#") || !strings.HasPrefix(exchange.Name, group.Name+"/") {
				t.Errorf("%q in group %q cannot be a name", exchange.Name, group.Name)
			}
		}
	}
}

func TestScriptHasEnoughHostileExchanges(t *testing.T) {
	hostile := 0
	for _, group := range script.Groups() {
		switch {
		case strings.HasPrefix(group.Name, "hostile-"), strings.HasPrefix(group.Name, "slow-"), group.Name == "partial", group.Name == "pipeline", group.Name == "expect":
			hostile += len(group.Exchanges)
		}
	}
	const enough = 500
	if hostile < enough {
		t.Errorf("%d hostile exchanges, want %d", hostile, enough)
	}
}

// TestScriptAsksForEveryOperation compares the script with the contract.
func TestScriptAsksForEveryOperation(t *testing.T) {
	document, err := openapi.JSON()
	check.NoError(t, err)
	var contract struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	testkit.Decode(t, document, &contract)
	var requests strings.Builder
	for _, group := range script.Groups() {
		for _, exchange := range group.Exchanges {
			requests.WriteString(strings.Join(exchange.Send, "") + "\n")
		}
	}
	sent := strings.ReplaceAll(requests.String(), "<<ada-callback>>", "/v1/developer/callback")
	operations := 0
	for path, methods := range contract.Paths {
		for method := range methods {
			if method == "parameters" {
				continue
			}
			operations++
			form := regexp.MustCompile(`\\\{[a-z_]+\\\}`).ReplaceAllString(regexp.QuoteMeta("/v1"+path), `[^/ ?]+`)
			if !regexp.MustCompile("(?m)^.*" + strings.ToUpper(method) + " " + form + `[ ?]`).MatchString(sent) {
				t.Errorf("the script has no %s %s", strings.ToUpper(method), path)
			}
		}
	}
	if operations < 25 {
		t.Errorf("only %d operations were found in the contract", operations)
	}
}

func TestVariablesAreKeptBeforeTheyAreUsed(t *testing.T) {
	given := map[string]bool{"length": true, "fresh": true, "continue": true, "since": true}
	for _, name := range []string{
		"catalog", "attempts", "other", "answers", "history", "pipeline", "tiny", "tiny-body", "burst", "default", "revoked", // the stage's keys
		"ada-callback", "bob", "eve", "full", // steps
	} {
		given[name] = true
	}
	variable := regexp.MustCompile(`<<([a-z0-9-]+)>>`)
	for _, group := range script.Groups() {
		for _, exchange := range group.Exchanges {
			for _, found := range variable.FindAllStringSubmatch(strings.Join(exchange.Send, ""), -1) {
				if !given[found[1]] {
					t.Errorf("%s: nothing has kept %s", exchange.Name, found[1])
				}
			}
			for name := range exchange.Keep {
				given[name] = true
			}
		}
	}
}
