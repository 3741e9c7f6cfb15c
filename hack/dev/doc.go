// Command dev runs examprep on one machine, for real, and runs its tests:
//
//	dev up              brings everything up (make dev)
//	dev down            stops what up started (make dev-down)
//	dev test COMMAND…   runs a command beside throw-away servers of its own (make test)
//	dev npm PROGRAM…    runs a program of the packages that hack/npm pins (make lint)
//
// up keeps its state in .dev, so a second start takes seconds and finds its data. The data plane comes first: it is
// built, published to and asked, and the request that worked is printed, while the control plane, whose programs may
// have to be built, follows. .dev/env is written twice: once with what the data plane serves, and again, ending in
// READY=1, when the samples are Ready in the cluster.
//
// One process supervises everything and stops it in reverse order at SIGINT, SIGTERM or when something cannot be
// repaired; nothing outlives it. It fails with the reason on standard error and status 1; dev test and dev npm fail
// with the command's own status.
//
// It imports nothing of the product but builds and runs it as anybody would, and it depends on little: it must be
// compiled before anything else can begin.
package main
