// Package controlplane runs etcd and kube-apiserver on loopback ports with a certificate authority of their own, and
// issues kubeconfigs for users.
//
// It does by itself what controller-runtime's envtest offers, because the development environment needs what envtest
// does not do: an authority and data that outlive a restart (envtest cannot reuse certificates that it finds), writes to
// etcd that survive a crash, and children that end when their supervisor does. It also keeps client-go out of the
// program that everything else waits for.
//
// Authorisation is RBAC, as in a real cluster. There are no controllers: namespaces are not emptied, owners' dependants
// are not collected, no pod ever runs.
//
// It fails with the errors of hack/dev/process, and with wrapped errors of the file system. It must not import anything
// of the product.
package controlplane
