package state

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

const envFile = "env"

// Variable is one line of the env file.
type Variable struct{ Name, Value string }

// Ready is the line that ends the env file of an environment that is whole.
func Ready() Variable { return Variable{Name: "READY", Value: "1"} }

// WriteEnv replaces the env file: one NAME=value a line, in the order given.
func (d Dir) WriteEnv(variables []Variable) error {
	var text strings.Builder
	for _, v := range variables {
		if strings.ContainsAny(v.Value, "\n\r") {
			return fmt.Errorf("write the env file: the value of %s has more than one line", v.Name)
		}
		text.WriteString(v.Name + "=" + v.Value + "\n")
	}
	return d.WriteFile(envFile, []byte(text.String()), 0o600)
}

// ReadEnv returns the variables of the env file; none if there is no file.
func (d Dir) ReadEnv() (map[string]string, error) {
	text, err := os.ReadFile(d.Path(envFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the env file: %w", err)
	}
	variables := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			variables[name] = value
		}
	}
	return variables, nil
}
