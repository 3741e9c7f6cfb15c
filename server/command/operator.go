package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers"
	"examprep.dev/server/accounts"
	"examprep.dev/server/catalog"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/command/parts"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/postgres"
	"examprep.dev/server/webhooks"
)

// operatorFlags are the settings of the operator.
type operatorFlags struct {
	processFlags
	encryptionKeys  string
	kubeconfig      string
	clusterName     string
	watchNamespaces []string
	shardName       string
	shardSelector   string
	restrict        bool
	restrictAdopt   bool
	leaderElect     bool
	leaderNamespace string
	leaderLease     string
	allowCIDRs      []string
	trusted         string
}

func newOperator(program Program) *cobra.Command {
	flags := operatorFlags{processFlags: processFlags{program: program}}
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Reconcile ExamContent, WebhookEndpoint and RateTier resources into Postgres",
		Args:  cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.open(cmd, "operator", postgres.Options{}, func(ctx context.Context, p *process) error { return runOperator(ctx, p, &flags) })
		},
	}
	flags.register(cmd)
	encryptionKeysFlag(cmd, &flags.encryptionKeys)
	clusterNameFlag(cmd, &flags.clusterName)
	trustedVerifiersFlag(cmd, &flags.trusted)
	set := cmd.Flags()
	set.StringVar(&flags.kubeconfig, "kubeconfig", "", "file with the address and credentials of the API server; empty: the pod's service account")
	set.StringSliceVar(&flags.watchNamespaces, "watch-namespaces", nil, "namespaces to watch; empty: all")
	set.StringVar(&flags.shardSelector, "shard-selector", "", "label selector of the resources to reconcile, such as examprep.dev/shard=a; empty: all")
	set.StringVar(&flags.shardName, "shard-name", "", "name of this shard, in statuses and in its lease's name; empty: the shard that takes the rest")
	set.BoolVar(&flags.restrict, "restrict-webhook-accounts", false,
		"limit webhook endpoints to the accounts that their namespace's annotation "+v1alpha1.WebhookAccountsAnnotation+" lists")
	set.BoolVar(&flags.restrictAdopt, "restrict-adoption", true,
		"spec.adopt takes from other namespaces only the exam keys that the namespace's annotation "+v1alpha1.AdoptsAnnotation+" lists")
	set.BoolVar(&flags.leaderElect, "leader-elect", true, "elect a leader among the replicas; only the leader reconciles")
	set.StringVar(&flags.leaderNamespace, "leader-namespace", "", "namespace of the lease; empty: the pod's namespace")
	set.StringVar(&flags.leaderLease, "leader-lease", "", "name of the lease; empty: examprep-operator.examprep.dev, and one of its own for each named shard")
	set.StringSliceVar(&flags.allowCIDRs, "webhook-allow-cidr", nil, "CIDR ranges outside the public internet that the URLs of WebhookEndpoints may name")
	return cmd
}

// runOperator wires the operator: a manager whose reconcilers call the same packages as everything else.
func runOperator(ctx context.Context, p *process, flags *operatorFlags) error {
	keyring, err := parseKeyring(flags.encryptionKeys)
	if err != nil {
		return err
	}
	allowed, err := parsePrefixes("webhook-allow-cidr", flags.allowCIDRs)
	if err != nil {
		return err
	}
	shard, err := controllers.ParseShard(flags.shardName, flags.shardSelector)
	if err != nil {
		return &cli.UsageError{Err: fmt.Errorf("--shard-name, --shard-selector: %w", err)}
	}
	verifiers, err := openVerifiers(flags.trusted, p.logger)
	if err != nil {
		return err
	}
	cluster, err := clientcmd.BuildConfigFromFlags("", flags.kubeconfig)
	if err != nil {
		return &cli.UsageError{Err: fmt.Errorf("--kubeconfig: %w", err)}
	}
	klog.SetSlogLogger(p.logger)
	ctrl.SetLogger(logr.FromSlogHandler(p.logger.Handler()))
	manager, err := controllers.NewManager(cluster, controllers.Options{
		WatchNamespaces: flags.watchNamespaces, LeaderElection: flags.leaderElect,
		LeaderElectionNamespace: flags.leaderNamespace, LeaderElectionID: flags.leaderLease, Logger: p.logger, Shard: shard,
		LeaseRenew: flags.program.LeaderTimeout, LeaseDuration: flags.program.LeaderTimeout * 3 / 2,
		ShutdownGrace: max(flags.shutdownGrace-cutTime, flags.shutdownGrace/2), // the back parts need the rest
	})
	if err != nil {
		return err
	}
	store := keys.NewStore(p.pool, directory.NewAuthor(p.pool, directory.AuthorConfig{Timings: flags.program.Timings}))
	err = controllers.Setup(manager, controllers.Deps{
		ClusterName: flags.clusterName, Tiers: store,
		Publisher: catalog.NewPublisher(p.pool, p.installation.Environment).Trusting(verifiers),
		Accounts:  accounts.NewAdministration(p.pool, time.Now), Endpoints: webhooks.NewManaged(p.pool, keyring, webhooks.NewAddressPolicy(allowed)),
		RestrictWebhookAccounts: flags.restrict, RestrictAdoption: flags.restrictAdopt, Shard: shard, Registerer: p.registry,
		Tracer: p.tracing.Tracer(), Draw: p.tracing.Sample,
	})
	if err != nil {
		return err
	}
	synced := func(ctx context.Context) error {
		if !manager.GetCache().WaitForCacheSync(ctx) {
			return errNotSynced
		}
		return nil
	}
	collectRarely(operatorGrowth)
	p.logger.Info("operating", "environment", p.installation.Environment, "cluster", flags.clusterName, "version", version())
	p.registerStores(p.pool)
	back := p.servers(synced, prometheus.GathererFunc(controllerMetrics))
	return parts.Run(ctx, p.logger, flags.shutdownGrace, []parts.Part{{Name: "manager", Run: manager.Start}}, back)
}

var errNotSynced = errors.New("the cache of resources is not filled yet")
