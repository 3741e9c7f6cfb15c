#!/usr/bin/env bash
# Runs each fuzz target of the packages for a while: fuzz.sh TIME PACKAGE…
# go test fuzzes one target at a time, so they are looked up first. An input that opens new ground is minimised by a few
# tries only: over a socket the standard minute each would be most of the run.
set -euo pipefail
time=$1
shift
failed=0
for package in $(go list "$@"); do
    directory=$(go list -f '{{.Dir}}' "$package")
    for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$directory"/*_test.go 2>/dev/null | cut -d' ' -f2); do
        echo "== $package $target"
        go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 5x "$package" || failed=1
    done
done
exit $failed
