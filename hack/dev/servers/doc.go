// Package servers runs private instances of PostgreSQL and Redis from the machine's own packages, on loopback ports and
// data directories of their own; it never touches an instance that runs already. [Require] names the packages that are
// missing. [Install] installs them where the machine has apt-get and the user can use it (root, or sudo without a
// password).
//
// PostgreSQL refuses to run as root. For root, it runs as the user postgres, else as the user nobody. Its data move to
// /var/tmp if that user cannot reach the place meant for them; [RemovePostgres] finds them there. A PostgreSQL that was
// killed is restarted once its old backends have released the shared memory.
//
// It fails with *MissingError when a program is missing, and with the errors of hack/dev/process. It must not import
// anything of the product.
package servers
