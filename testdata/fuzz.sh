#!/usr/bin/env bash
# Runs every fuzz target in the packages given for $FUZZTIME each; with $FUZZ
# set, only the target of that name. Inputs that fail are kept by Go in the
# package's testdata/fuzz: commit them with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
count=0
while read -r dir package; do
	for target in $(cd "$dir" && grep -shoE '^func Fuzz[A-Za-z0-9_]*' -- *_test.go | awk '{ print $2 }' | sort -u); do
		if [ -n "${FUZZ:-}" ] && [ "$FUZZ" != "$target" ]; then
			continue
		fi
		echo "== $target, $package"
		"$go" test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" "$package"
		count=$((count + 1))
	done
done < <("$go" list -f '{{.Dir}} {{.ImportPath}}' "${@:-./...}")

if [ "$count" = 0 ]; then
	echo "no fuzz target found" >&2
	exit 1
fi
echo "$count fuzz targets ran"
