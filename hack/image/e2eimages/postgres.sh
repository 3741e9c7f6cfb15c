#!/bin/sh
# What the official image's entry point does, as far as a test needs it: makes the cluster and its database at the first
# start. Only the shell's own commands are here.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb -D "$PGDATA" -U "${POSTGRES_USER:-postgres}" --auth=scram-sha-256 --encoding=UTF8 --locale=C \
        --no-instructions --pwfile=/dev/fd/3 3<<PASSWORD
$POSTGRES_PASSWORD
PASSWORD
    echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    echo "CREATE DATABASE \"${POSTGRES_DB:-postgres}\"" | postgres --single -D "$PGDATA" template1
fi
exec "$@"
