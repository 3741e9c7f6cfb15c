#!/usr/bin/env bash
# Runs the soak tests of the packages, those that call testkit.Soak, one after the other: soak.sh [FLAG…] PACKAGE…
# They depend on the machine's speed, so they run alone, and without the race detector.
set -euo pipefail
flags=() packages=()
for arg in "$@"; do
    if [[ $arg == ./* ]]; then packages+=("$arg"); else flags+=("$arg"); fi
done
found=$(go list -f '{{$d := .Dir}}{{range .TestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}' "${packages[@]}" |
    sed '/^$/d' | xargs awk '
        /^func / { test = match($0, /^func Test[A-Za-z0-9_]*/) ? substr($0, 6, RLENGTH - 5) : "" }
        /testkit\.Soak\(/ {
            if (test == "") { print FILENAME ": only a test calls testkit.Soak" >"/dev/stderr"; failed = 1 }
            folder = FILENAME; sub(/\/[^\/]*$/, "", folder); print folder, test
        }
        END { exit failed }')
[ -n "$found" ] || { echo "no test of ${packages[*]} calls testkit.Soak" >&2; exit 1; }
names=$(cut -d' ' -f2 <<<"$found" | sort -u | paste -sd'|')
mapfile -t folders < <(cut -d' ' -f1 <<<"$found" | sort -u)
printf '%s\n' "$found" | sed "s|^$PWD/||" >&2
EXAMPREP_TEST_SOAK=1 CGO_ENABLED=0 exec go test -trimpath -count=1 -p 1 -parallel 1 -run "^($names)\$" "${flags[@]}" "${folders[@]}"
