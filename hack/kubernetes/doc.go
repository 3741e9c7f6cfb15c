// Command kubernetes obtains kube-apiserver, etcd and kubectl for tests and for the development environment, and prints
// the folder that contains them. It takes the first of these that has all three:
//
//  1. the folder KUBEBUILDER_ASSETS;
//  2. the user's cache, which an earlier run has filled;
//  3. the archive that setup-envtest's index lists, if the index answers within 5 seconds. The archive must match the
//     SHA-512 sum in the index;
//  4. the modules that go.mod in this folder pins: it compiles them, which takes 4 to 18 minutes on two cores.
//
// The index is asked for the pinned version of Kubernetes. If the index lacks that version, the program takes the newest
// patch of the same minor version, and prints which. The cache is named after the pinned version in both cases.
//
// A set is written to a folder next to its final place and renamed when it is complete, under a lock. So of two runs at
// the same time, one waits for the other, and a killed run leaves no set that looks complete. Packages are compiled with
// the flags that the project itself is built with, so the two share Go's build cache.
//
// Progress goes to standard error. The program fails if KUBEBUILDER_ASSETS is not an absolute path or its folder lacks a
// program, if the modules cannot be downloaded, or if a package does not compile. A failed download is printed, and
// compiling follows. Apart from the standard library, it imports only setup-envtest's client.
package main
