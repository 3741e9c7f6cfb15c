package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

// timed checks a test whose function has some statements against a list of times.
func timed(t *testing.T, name, statements, list string) []string {
	t.Helper()
	text := "package p\nfunc f() {\n" + statements + "\n}\n"
	root := fstest.MapFS{exceptionsFile: {}, timesFile: {Data: []byte(list)}, name: {Data: []byte(text)}}
	findings, err := check(root)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, f := range findings {
		texts = append(texts, f.String())
	}
	return texts
}

func TestLiteralTimeOfALimitIsFound(t *testing.T) {
	for statement, found := range map[string]bool{
		`<-time.After(time.Second)`:                                            true,
		`ctx, end := context.WithTimeout(ctx, 5*time.Second)`:                  true,
		`context.WithDeadline(ctx, time.Now().Add(50*time.Millisecond))`:       true,
		`s := Server{ReadTimeout: 2 * time.Minute}`:                            true,
		`s.cfg.ReadTimeout = time.Duration(n) * time.Millisecond`:              true,
		`const waitTimeout = 30 * time.Second`:                                 true,
		`time.Sleep(time.Millisecond)`:                                         true,
		`testkit.Run(t, func() { w := Worker{SweepInterval: time.Second} })`:   true,
		`s := Server{ReadTimeout: testkit.Patience / 4}`:                       false,
		`clock.Pass(3 * time.Second)`:                                          false,
		`ok := at.After(now.Add(time.Second))`:                                 false,
		`d := keys.Tier{Period: time.Second}`:                                  false,
		`time.AfterFunc(testkit.Patience, func() { clock.Pass(time.Second) })`: false,
		`synctest.Test(t, func(t *testing.T) { time.Sleep(time.Second) })`:     false,
	} {
		findings := timed(t, "server/keys/store_test.go", statement, "")
		if (len(findings) == 1) != found || found && !strings.HasPrefix(findings[0], "times server/keys/store_test.go: 1 literal times") {
			t.Errorf("%s: %q", statement, findings)
		}
	}
	if findings := timed(t, "server/keys/store.go", "<-time.After(time.Second)", ""); len(findings) > 0 {
		t.Errorf("the product: %q", findings)
	}
}

func TestListedTimesAreThoseOfTheFile(t *testing.T) {
	const two, name = "<-time.After(time.Second)\n<-time.After(time.Second)", "server/keys/store_test.go"
	if findings := timed(t, name, two, "# comment\n\n"+name+"  2  the clock is the database's\n"); len(findings) > 0 {
		t.Errorf("%q", findings)
	}
	for list, found := range map[string]string{
		name + " 1 reason\n": "lists 1",
		name + " 3 reason\n": "lists 3",
		name + " 2 reason\nserver/keys/gone_test.go 1 reason\n": "passes no literal time; remove line 2",
	} {
		if findings := timed(t, name, two, list); len(findings) != 1 || !strings.Contains(findings[0], found) {
			t.Errorf("%q: %q", list, findings)
		}
	}
}

func TestMalformedTimesAreAnError(t *testing.T) {
	for _, text := range []string{"a_test.go\n", "a_test.go 2\n", "a_test.go two reason\n", "a_test.go 0 reason\n", "a_test.go 1 x\na_test.go 1 y\n"} {
		if allowed, err := parseTimes(text); err == nil {
			t.Errorf("%q: %v", text, allowed)
		}
	}
}
