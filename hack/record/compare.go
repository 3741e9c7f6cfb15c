package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"examprep.dev/hack/record/recording"
)

// compare prints each difference of two recordings that the list does not allow.
func compare(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	allow := flags.String("allow", "", "file of expected differences, one a line: EXCHANGE PART REASON; * stands for any characters")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("compare needs two recordings")
	}
	before, err := readFile(flags.Arg(0), recording.Read)
	if err != nil {
		return err
	}
	after, err := readFile(flags.Arg(1), recording.Read)
	if err != nil {
		return err
	}
	var allowed []recording.Allowed
	if *allow != "" {
		if allowed, err = readFile(*allow, recording.ReadAllowed); err != nil {
			return err
		}
	}
	unexpected, expected, unused := recording.Split(recording.Compare(before, after), allowed)
	for _, difference := range unexpected {
		_, _ = fmt.Fprintln(stdout, difference)
	}
	for _, entry := range unused {
		_, _ = fmt.Fprintf(stdout, "unused: %s\n", entry)
	}
	_, _ = fmt.Fprintf(stdout, "%d and %d exchanges: %d differences, %d expected ones, %d unused entries\n",
		len(before), len(after), len(unexpected), len(expected), len(unused))
	if len(unexpected)+len(unused) > 0 {
		return errDifferent
	}
	return nil
}

func readFile[T any](path string, read func(io.Reader) ([]T, error)) ([]T, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	list, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}
