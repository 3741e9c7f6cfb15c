// Package servers runs private instances of PostgreSQL and Redis from the machine's own packages, on loopback ports and
// data directories of their own; it never touches an instance that runs already. What is missing it installs, where the
// machine has apt-get and the user may use it (root, or sudo without a password); elsewhere it says what to install.
//
// PostgreSQL refuses to run as root: then it runs as the user postgres, or nobody, and its data moves to /var/tmp if
// that user cannot reach the place meant for it.
//
// It fails with *MissingError when a program is neither there nor to be had, and with the errors of hack/dev/process. It
// must not import anything of the product.
package servers
