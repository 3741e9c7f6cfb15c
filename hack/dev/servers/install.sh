# Installs the named packages as root. No package starts a service or creates a database cluster, so the machine's own
# services stay as they are. sh reads this script from standard input.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

policy=/usr/sbin/policy-rc.d
made_policy=
clean_up() { if [ -n "$made_policy" ]; then rm -f "$policy"; fi; }
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

if [ ! -e "$policy" ]; then
    made_policy=yes
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 0755 "$policy"
fi
# Read by postgresql-common when a server package is configured. It stays: it is configuration, and taking it away
# would have the package's next upgrade create the cluster after all.
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    mkdir -p /etc/postgresql-common
    printf 'create_main_cluster = false\n' >/etc/postgresql-common/createcluster.conf
fi

apt-get update -q
apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=120 "$@" </dev/null

# A service that this run installed must not start at the next boot either.
if [ -d /run/systemd/system ]; then
    for unit in "$@"; do
        case "$unit" in redis-server | nginx | pgbouncer) systemctl disable "$unit" >/dev/null 2>&1 || true ;; esac
    done
fi
