package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	out := flag.String("out", ".", "`folder` that the archives are written to")
	prefix := flag.String("prefix", "localhost/examprep-e2e", "what the images' names begin with; the tag is always 1")
	receiver := flag.String("receiver", "", "static `binary` of the webhook receiver")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *out, *prefix, *receiver)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2eimages:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, prefix, receiver string) error {
	postgres, err := postgresImage(ctx)
	if err != nil {
		return fmt.Errorf("image of PostgreSQL: %w", err)
	}
	redis, err := redisImage(ctx)
	if err != nil {
		return fmt.Errorf("image of Redis: %w", err)
	}
	images := map[string]*image{"postgres": postgres, "redis": redis}
	if receiver != "" {
		images["receiver"] = receiverImage(receiver)
	}
	for name, contents := range images {
		if err := contents.write(filepath.Join(out, name+".tar"), prefix+"/"+name+":1"); err != nil {
			return fmt.Errorf("image of %s: %w", name, err)
		}
	}
	return nil
}
