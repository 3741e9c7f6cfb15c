package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog"
	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/redisurl"
	"examprep.dev/server/sessions"
	"examprep.dev/server/webhooks"
)

// apiFlags are the settings of an API pod.
type apiFlags struct {
	processFlags
	listen          string
	namespaceSecret string
	trustedProxies  []string
	drainDelay      time.Duration
	mostOfAddress   int
	encryptionKeys  string
	allowCIDRs      []string
	provider        sessions.Provider
	sessionIdle     time.Duration
	sessionLifetime time.Duration
}

func newAPI() *cobra.Command {
	var flags apiFlags
	cmd := &cobra.Command{
		Use:   "api",
		Short: "Serve the HTTP interface",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.open(cmd, "api", func(ctx context.Context, p *process) error { return runAPI(ctx, p, &flags) })
		},
	}
	flags.register(cmd)
	namespaceSecretFlag(cmd, &flags.namespaceSecret)
	cmd.Flags().StringVar(&flags.listen, "listen", ":8080", "address of the HTTP interface")
	cmd.Flags().StringSliceVar(&flags.trustedProxies, "trusted-proxies", nil,
		"CIDR ranges of proxies whose X-Forwarded-For is believed")
	cmd.Flags().DurationVar(&flags.drainDelay, "drain-delay", 0,
		"how long to go on accepting after SIGTERM, while load balancers take note; part of the shutdown grace")
	cmd.Flags().IntVar(&flags.mostOfAddress, "max-connections-per-address", 0,
		"how many connections one client address may have, trusted proxies aside; 0: no limit, as behind a load balancer that is not trusted")
	flags.registerSignIn(cmd)
	return cmd
}

// registerSignIn adds the settings of the developer endpoints; without an issuer there are none.
func (f *apiFlags) registerSignIn(cmd *cobra.Command) {
	encryptionKeysFlag(cmd, &f.encryptionKeys)
	set := cmd.Flags()
	set.StringSliceVar(&f.allowCIDRs, "webhook-allow-cidr", nil, "ranges that webhook URLs may name although they are private")
	set.StringVar(&f.provider.Issuer, "oidc-issuer", "", "OpenID Connect provider that developers sign in with; empty: no developer endpoints")
	set.StringVar(&f.provider.ClientID, "oidc-client-id", "", "this service's id with the provider")
	set.StringVar(&f.provider.ClientSecret, "oidc-client-secret", "", "this service's secret with the provider")
	set.StringVar(&f.provider.RedirectURL, "oidc-redirect-url", "", "this service's /v1/developer/callback, as the provider knows it")
	set.DurationVar(&f.sessionIdle, "session-idle", 2*time.Hour, "a session ends so long after its last use")
	set.DurationVar(&f.sessionLifetime, "session-lifetime", 12*time.Hour, "a session ends so long after its beginning")
}

// runAPI wires an API pod. The back parts keep the catalogue and the gate current; the front takes requests.
func runAPI(ctx context.Context, p *process, flags *apiFlags) error {
	secret, err := parseNamespaceSecret(flags.namespaceSecret)
	if err != nil {
		return err
	}
	proxies, err := parsePrefixes("trusted-proxies", flags.trustedProxies)
	if err != nil {
		return err
	}
	if err := require("redis-url", flags.redisURL); err != nil {
		return err
	}
	redisClient, err := redisurl.Open(flags.redisURL, gate.ClientOptions)
	if err != nil {
		return &usageError{err}
	}
	defer func() { _ = redisClient.Close() }()
	snapshot, err := catalog.OpenSnapshot(ctx, p.pool, p.logger, catalog.SnapshotConfig{})
	if err != nil {
		return err
	}
	notifier := webhooks.NewNotifier(p.pool)
	service, err := attempts.NewService(attempts.Config{NamespaceSecret: secret}, p.pool, snapshot, notifier)
	if err != nil {
		return err
	}
	sessionClient, err := redisurl.Open(flags.redisURL, nil)
	if err != nil {
		return &usageError{err}
	}
	defer func() { _ = sessionClient.Close() }()
	meter := keys.NewMeter(p.pool, keys.MeterConfig{Interval: meterInterval, Registerer: p.registry})
	gates := gate.New(gate.Config{
		Prefix: flags.redisPrefix, Used: meter.Count, Registerer: p.registry, Logger: p.logger,
	}, redisClient, keys.NewReader(p.pool))
	developer, err := newDeveloper(p, flags, sessionClient, gates)
	if err != nil {
		return err
	}
	if flags.drainDelay+cutTime >= flags.shutdownGrace {
		return &usageError{fmt.Errorf("--drain-delay: leaves nothing of the shutdown grace of %s", flags.shutdownGrace)}
	}
	server := httpapi.New(httpapi.Config{
		TrustedProxies: proxies, MaxConnectionsPerAddress: flags.mostOfAddress,
		DrainDelay: flags.drainDelay, ShutdownGrace: flags.shutdownGrace - flags.drainDelay - cutTime,
	}, httpapi.Deps{
		Gate: gates, Catalog: snapshot, Attempts: service, Developer: developer, Logger: p.logger, Registerer: p.registry, Tracer: p.tracing.Tracer(),
	})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", flags.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	p.logger.Info("serving", "address", listener.Addr().String(), "environment", p.env, "version", version())
	ready := func(context.Context) error {
		if ctx.Err() != nil {
			return errStopping
		}
		if !snapshot.Ready() {
			return errors.New("the catalogue is not loaded yet")
		}
		return nil
	}
	back := append(p.servers(ready),
		part{"catalogue", snapshot.Run}, part{"gate", gates.Run}, part{"notifier", notifier.Run}, part{"usage", meter.Run})
	front := []part{{"http", func(ctx context.Context) error { return server.Serve(ctx, listener) }}}
	return runParts(ctx, p.logger, flags.shutdownGrace, front, back)
}

// newDeveloper wires the developer endpoints; nil without a provider.
func newDeveloper(p *process, flags *apiFlags, client redis.UniversalClient, gates *gate.Gate) (*httpapi.Developer, error) {
	if flags.provider.Issuer == "" {
		return nil, nil //nolint:nilnil // no developer endpoints
	}
	for flag, value := range map[string]string{
		"oidc-client-id": flags.provider.ClientID, "oidc-redirect-url": flags.provider.RedirectURL,
	} {
		if err := require(flag, value); err != nil {
			return nil, err
		}
	}
	keyring, err := parseKeyring(flags.encryptionKeys)
	if err != nil {
		return nil, err
	}
	allowed, err := parsePrefixes("webhook-allow-cidr", flags.allowCIDRs)
	if err != nil {
		return nil, err
	}
	store := keys.NewStore(p.pool, gates)
	signedIn := sessions.NewStore(client, flags.redisPrefix, flags.sessionIdle, flags.sessionLifetime, time.Now)
	return &httpapi.Developer{
		SignIn: sessions.NewSignIn(flags.provider, store, signedIn, p.pool), Sessions: signedIn, Keys: store,
		Webhooks:    webhooks.NewEndpoints(p.pool, keyring, allowed),
		Environment: string(p.env), SessionLifetime: flags.sessionLifetime,
	}, nil
}

// cutTime is kept of the shutdown grace for cutting what has not ended, and for the back parts to stop.
const cutTime = 3 * time.Second

// meterInterval is how often the use of keys is written: a busy key costs two rows a minute, not one a request, and a pod
// that is killed loses the counts of a minute.
const meterInterval = time.Minute

var errStopping = errors.New("stopping")
