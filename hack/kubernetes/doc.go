// Command kubernetes obtains kube-apiserver, etcd and kubectl for tests and for the development environment, and prints
// the directory that holds the three. It looks, in this order:
//
//  1. where KUBEBUILDER_ASSETS points;
//  2. in the cache, for a set that an earlier run built;
//  3. in setup-envtest's store, and, where the open internet answers within seconds, at what setup-envtest fetches
//     (not when EXAMPREP_OFFLINE is set);
//  4. nowhere: it builds the three from the modules that go.mod in this directory pins, once per version.
//
// The set is built into a directory beside its final place, which it takes by one rename, under a lock: of two runs at
// once one builds and the other waits, and a run that is killed leaves nothing that looks finished. Packages are compiled
// with the flags that the project itself is built with, so what both use is compiled once.
//
// Progress goes to standard error. It fails when the modules cannot be downloaded, when a package does not compile, and
// when KUBEBUILDER_ASSETS names a directory that lacks one of the three. It imports nothing but the standard library:
// running it compiles nothing else.
package main
