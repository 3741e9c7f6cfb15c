package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"examprep.dev/server/command/cli"
	"examprep.dev/server/telemetry"
)

const (
	// testPrefix begins the variables of this project's tests.
	testPrefix = "EXAMPREP_TEST_"
	// nearDistance is the largest edit distance between a name and one that is suggested in its place.
	nearDistance = 2
	// maxSuggestions bounds how many names are suggested: a name that is near to more of them is near to none.
	maxSuggestions = 3
)

// flagVariables returns the variable of each flag of root and of its subcommands, by the name with our prefix. The two
// differ for the flags in usualNames only: EXAMPREP_DATABASE_URL leads to DATABASE_URL.
func flagVariables(root *cobra.Command) map[string]string {
	found := map[string]string{}
	root.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" && flag.Name != "version" {
			found[cli.Prefixed(flag.Name)] = cli.Variable(flag.Name)
		}
	})
	for _, child := range root.Commands() {
		maps.Copy(found, flagVariables(child))
	}
	return found
}

// unknownVariables returns, in order, the names in environment that begin with EXAMPREP_ and that no command reads.
// Empty variables count as unset.
func unknownVariables(environment []string, known map[string]string) []string {
	set := map[string]string{}
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		set[name] = value
	}
	var unknown []string
	for name, value := range set {
		isOurs := strings.HasPrefix(name, cli.VariablePrefix) && !strings.HasPrefix(name, testPrefix)
		if isOurs && value != "" && known[name] != name && !isServiceLink(name, set) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// isServiceLink reports whether the kubelet set the variable name because the namespace has a Service. A Service
// "examprep-api" has EXAMPREP_API_SERVICE_HOST, and more variables that begin with EXAMPREP_API_SERVICE_ or
// EXAMPREP_API_PORT.
func isServiceLink(name string, set map[string]string) bool {
	for other := range set {
		service, isHost := strings.CutSuffix(other, "_SERVICE_HOST")
		if isHost && (strings.HasPrefix(name, service+"_SERVICE_") || strings.HasPrefix(name, service+"_PORT")) {
			return true
		}
	}
	return false
}

// suggestions returns the variables whose names are near to name.
func suggestions(name string, known map[string]string) []string {
	candidates := &cobra.Command{SuggestionsMinimumDistance: nearDistance} // cobra compares names of subcommands
	for candidate := range known {
		candidates.AddCommand(&cobra.Command{Use: candidate, Run: func(*cobra.Command, []string) {}})
	}
	near := candidates.SuggestionsFor(name)
	if len(near) > maxSuggestions {
		return nil
	}
	for i, candidate := range near {
		near[i] = known[candidate]
	}
	slices.Sort(near)
	return near
}

// warnOfUnknownVariables writes one line for each unknown variable: to the log if cmd has one, else to standard error.
// The line does not contain the variable's value, which can be a secret.
func warnOfUnknownVariables(cmd *cobra.Command, environment []string) {
	known := flagVariables(cmd.Root())
	warn := func(text string) { _, _ = fmt.Fprintln(cmd.ErrOrStderr(), "examprep:", text) }
	if level := cmd.Flags().Lookup("log-level"); level != nil {
		if logger, err := telemetry.NewLogger(cmd.ErrOrStderr(), level.Value.String()); err == nil {
			warn = func(text string) { logger.Warn(text, "process", cmd.Name()) } //nolint:sloglint // the text names the variable
		}
	}
	for _, name := range unknownVariables(environment, known) {
		text := name + ": no command has a flag for this variable"
		if near := suggestions(name, known); len(near) > 0 {
			text += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		warn(text)
	}
}
