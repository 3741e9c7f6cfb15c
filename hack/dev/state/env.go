package state

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// The env files: of `dev up`, and of the servers for tests.
const (
	EnvFile     = "env"
	TestEnvFile = "test.env"
)

// Variable is one line of an env file.
type Variable struct{ Name, Value string }

// Ready is the line that ends the env file of an environment that is whole.
func Ready() Variable { return Variable{Name: "READY", Value: "1"} }

// WriteEnv replaces an env file: one NAME=value a line, in the order given. It leaves a file alone that has this content
// already, because Go caches the result of a test only while the files that the test read keep their modification times.
func (d Dir) WriteEnv(file string, variables []Variable) error {
	var text strings.Builder
	for _, v := range variables {
		if strings.ContainsAny(v.Value, "\n\r") {
			return fmt.Errorf("write %s: the value of %s has more than one line", file, v.Name)
		}
		text.WriteString(v.Name + "=" + v.Value + "\n")
	}
	if there, err := os.ReadFile(d.Path(file)); err == nil && string(there) == text.String() {
		return nil
	}
	return d.WriteFile(file, []byte(text.String()), 0o600)
}

// ReadEnv returns the variables of an env file; none if there is no file.
func (d Dir) ReadEnv(file string) (map[string]string, error) {
	text, err := os.ReadFile(d.Path(file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	variables := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			variables[name] = value
		}
	}
	return variables, nil
}
