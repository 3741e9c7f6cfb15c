// Package cluster holds the proofs that the product can be run as its users run it: installed from the chart on a real
// cluster, upgraded, restarted, drained, scaled, backed up and taken away again, while clients are at work whose account
// of what they were answered is then held against history and against the webhooks that arrived. `make e2e` runs it when
// E2E_CLUSTER is set:
//
//	E2E_CLUSTER=1 KUBECONFIG=… E2E_LOAD_IMAGE='kind load image-archive' make e2e [E2EFLAGS='-chaos 5m -figures 20000']
//
// What it needs of the cluster: an administrator's KUBECONFIG; node ports that this machine reaches; metrics-server for
// the proof of scaling, which is passed over without it. It makes the namespaces examprep-e2e, examprep-e2e-sandbox and
// examprep-e2e-stores, each with Pod Security "restricted" enforced, runs its own PostgreSQL, Redis and webhook receiver
// there, and takes all of it away at the end, the custom resource definitions too unless they were there before; -keep
// leaves everything for a look after a failure.
//
// Images are built here and handed to the command E2E_LOAD_IMAGE, which gets the archives as its last arguments. Where a
// registry is nearer, E2E_IMAGE and E2E_NEXT_IMAGE (the product and a later build of it), E2E_RECEIVER_IMAGE,
// E2E_POSTGRES_IMAGE and E2E_REDIS_IMAGE (the official ones will do) name images instead; what is named is not built.
//
// HELM and HELM3 name Helm 4 and Helm 3, KUBECTL kubectl; without them the pinned ones are built from hack/chart, and
// kubectl is looked for in PATH and in .dev/bin.
//
// cluster_test.go is the table of contents; E2EFLAGS="-test.run 'TestCluster/(install|applied|restarts)'" takes some of
// it: the first proof installs what the others need. As in hack/e2e nothing of the program is imported.
package cluster
