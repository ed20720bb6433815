#!/usr/bin/env bash
# Runs every fuzz target in the packages given for $FUZZTIME each; with $FUZZ
# set, only the target of that name. Inputs that fail are kept by Go in the
# package's testdata/fuzz: commit them with the fix.
#
# Go before 1.27 sometimes fails a target at the end of its time with a bare
# "context deadline exceeded" (golang.org/issue/75804): that is no finding.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
count=0
while read -r dir package; do
	for target in $(cd "$dir" && grep -shoE '^func Fuzz[A-Za-z0-9_]*' -- *_test.go | awk '{ print $2 }' | sort -u); do
		if [ -n "${FUZZ:-}" ] && [ "$FUZZ" != "$target" ]; then
			continue
		fi
		echo "== $target, $package"
		if ! "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" "$package" 2>&1 | tee "$log"; then
			if grep -q 'Failing input written' "$log" || ! grep -qx ' *context deadline exceeded' "$log"; then
				exit 1
			fi
			echo "(the end of the time, not a finding)"
		fi
		count=$((count + 1))
	done
done < <("$go" list -f '{{.Dir}} {{.ImportPath}}' "${@:-./...}")

if [ "$count" = 0 ]; then
	echo "no fuzz target found" >&2
	exit 1
fi
echo "$count fuzz targets ran"
