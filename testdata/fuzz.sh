#!/usr/bin/env bash
# Runs every fuzz target of the given packages for $FUZZTIME each. If $FUZZ is
# set, it runs only the target of that name. If $FUZZLIMIT is set, it starts no
# target after that many seconds, and names the packages that it leaves out. Go
# keeps failing inputs in the package's testdata/fuzz: commit them with the fix.
#
# Go before 1.27 sometimes fails a target at the end of its time with a bare
# "context deadline exceeded" (golang.org/issue/75804). That is not a finding.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=$("$go" env GOCACHE)/fuzz
count=0
while read -r dir package; do
	targets=$(cd "$dir" && grep -shoE '^func Fuzz[A-Za-z0-9_]*' -- *_test.go | awk '{ print $2 }' | grep -x -- "${FUZZ:-.*}" | sort -u || true)
	[ -n "$targets" ] || continue
	if [ -n "${FUZZLIMIT:-}" ] && [ $SECONDS -ge "$FUZZLIMIT" ]; then
		echo "(no time for $package)"
		continue
	fi
	# Build one program for all targets of a package: linking takes longer than a short run.
	"$go" test -c -fuzz . -o "$work/test" "$package"
	for target in $targets; do
		echo "== $target, $package"
		if ! (cd "$dir" && "$work/test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "${FUZZTIME:-10s}" \
			-test.fuzzcachedir "$cache/$package") 2>&1 | tee "$work/log"; then
			if grep -q 'Failing input written' "$work/log" || ! grep -qx ' *context deadline exceeded' "$work/log"; then
				exit 1
			fi
			echo "(the end of the time, not a finding)"
		fi
		count=$((count + 1))
	done
done < <("$go" list -f '{{.Dir}} {{.ImportPath}}' "${@:-./...}")

if [ "$count" = 0 ] && [ -z "${FUZZLIMIT:-}" ]; then
	echo "no fuzz target found" >&2
	exit 1
fi
echo "$count fuzz targets ran"
