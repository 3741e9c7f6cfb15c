// Package controlplane runs etcd and kube-apiserver on loopback ports with a certificate authority of their own, and
// issues kubeconfigs for users.
//
// It replaces controller-runtime's envtest, which lacks three properties that the development environment needs:
//
//   - The authority and the data outlive a restart; envtest cannot reuse the certificates that it finds.
//   - Writes to etcd survive a crash.
//   - Children end when their supervisor ends.
//
// It also keeps client-go out of hack/dev, which is compiled before anything else can start.
//
// Authorisation is RBAC, as in a real cluster. There are no controllers: namespaces are not emptied, owners' dependants
// are not collected, and no pod ever runs.
//
// It fails with the errors of hack/dev/process, and with wrapped errors of the file system. It must not import anything
// of the product.
package controlplane
