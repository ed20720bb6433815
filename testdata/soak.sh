#!/usr/bin/env bash
# Runs the tests with random input of the given packages, with $SCALE times as many
# rounds as 'make test'. $SEED selects the input. $SOAKTIME is the time limit.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
export KIST_TEST_SCALE=${SCALE:-20} KIST_TEST_SEED=${SEED:-$RANDOM}
tests=() packages=()
while read -r dir package; do
	found=$(awk '
		/^func Test/ { name = $2; sub(/\(.*/, "", name) }
		/^}/ { name = "" }
		name && /objecttest\.Rounds\(/ { print name; name = "" }' "$dir"/*_test.go 2>/dev/null || true)
	if [ -n "$found" ]; then
		tests+=($found)
		packages+=("$package")
	fi
done < <("$go" list -f '{{.Dir}} {{.ImportPath}}' "${@:-./...}")
if [ ${#tests[@]} = 0 ]; then
	echo "no test with random input found"
	exit
fi

run="KIST_TEST_SCALE=$KIST_TEST_SCALE KIST_TEST_SEED=$KIST_TEST_SEED"
echo "$run: ${#tests[@]} tests"
if ! "$go" test -count=1 -v -timeout "${SOAKTIME:-10h}" ${TESTFLAGS:-} \
	-run "^($(IFS='|'; echo "${tests[*]}"))\$" "${packages[@]}" | grep -avE '^ *=== '; then
	echo "failed with $run" >&2
	exit 1
fi
