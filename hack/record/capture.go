package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"examprep.dev/hack/record/play"
	"examprep.dev/hack/record/recording"
	"examprep.dev/hack/record/script"
	"examprep.dev/hack/record/stage"
)

// capture sets up a server, plays the script, and writes the recording.
func capture(ctx context.Context, args []string, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("capture", flag.ContinueOnError)
	flags.SetOutput(stderr)
	binary := flags.String("binary", "", "built examprep to record")
	output := flags.String("o", "", "file for the recording")
	databaseURL := flags.String("database-url", os.Getenv("DATABASE_URL"), "PostgreSQL server on which a database is created and dropped [DATABASE_URL]")
	redisURL := flags.String("redis-url", os.Getenv("REDIS_URL"), "Redis server; keys stay there [REDIS_URL]")
	only := flags.String("only", "", "comma-separated groups to play; empty: all. Groups that need others' sessions fail")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *binary == "" || *output == "" || *databaseURL == "" || *redisURL == "" || flags.NArg() > 0 {
		return errors.New("capture needs -binary, -o, -database-url and -redis-url, and nothing else")
	}
	path, err := filepath.Abs(*binary)
	if err != nil {
		return fmt.Errorf("find the binary: %w", err)
	}
	report := func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	on, err := stage.Open(ctx, stage.Config{Binary: path, DatabaseURL: *databaseURL, RedisURL: *redisURL})
	if err != nil {
		return err
	}
	defer on.Close()
	report("the server listens on %s", on.Address)
	exchanges, err := play.Run(ctx, on, chosen(script.Groups(), *only), report)
	if err != nil {
		return err
	}
	file, err := os.Create(*output)
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	report("%d exchanges", len(exchanges))
	return recording.Write(file, exchanges)
}

// chosen returns the groups that a list names, all if it is empty.
func chosen(groups []script.Group, only string) []script.Group {
	if only == "" {
		return groups
	}
	var list []script.Group
	for _, group := range groups {
		for name := range strings.SplitSeq(only, ",") {
			if group.Name == name {
				list = append(list, group)
			}
		}
	}
	return list
}
