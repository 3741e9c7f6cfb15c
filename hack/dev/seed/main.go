package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"examprep.dev/server/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

// run seeds the account that args name, and prints what it made.
func run(ctx context.Context, args []string, out io.Writer) error {
	s := seeder{apiKey: os.Getenv("API_KEY"), now: time.Now, hosts: ownHosts()}
	receiver := ""
	flags := flag.NewFlagSet("seed", flag.ContinueOnError)
	flags.StringVar(&s.api, "api", "", "`URL` of the API, with its version")
	flags.StringVar(&s.account, "account", "", "`name` of the account")
	flags.StringVar(&s.subject, "subject", "", "`subject` of a member of the account, at the provider that needs no password")
	flags.StringVar(&receiver, "receiver", "", "`URL` of the webhook receiver on this machine")
	if err := flags.Parse(args); err != nil {
		return err
	}
	address, err := url.Parse(receiver)
	if err != nil || address.Port() == "" {
		return fmt.Errorf("-receiver: %q is not a URL with a port", receiver)
	}
	s.receiverPort = address.Port()
	if s.pool, err = postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{MaxConns: 2}); err != nil {
		return err
	}
	defer s.pool.Close()
	if err := s.run(ctx); err != nil {
		return err
	}
	if len(s.made) > 0 {
		fmt.Fprintf(out, "made sample data in the account %s: %s\n", s.account, strings.Join(s.made, ", "))
	}
	return nil
}

// ownHosts returns names that lead to this machine on most machines. The API refuses to register localhost itself.
func ownHosts() []string {
	names := []string{"ip6-localhost", "ip6-loopback", "localhost.localdomain"}
	if name, err := os.Hostname(); err == nil {
		names = append([]string{name}, names...)
	}
	return names
}
