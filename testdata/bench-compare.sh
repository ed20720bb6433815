#!/usr/bin/env bash
# usage: bench-compare.sh REF PACKAGE...
#
# Runs the Go benchmarks of the packages in turn at the commit REF and in the
# worktree, $COUNT times each, and compares the results with benchstat. $BENCH is
# a regular expression that selects benchmarks.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
ref=${1:?which commit to compare with: make bench-compare REF=main}
shift
benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
commit=$(git rev-parse --verify --quiet "$ref^{commit}") || { echo "no commit '$ref'" >&2; exit 1; }

dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/then" 2>/dev/null || true; rm -rf "$dir"' EXIT
git worktree add --quiet --detach "$dir/then" "$commit"
run() { "$go" -C "$1" test -run '^$' -bench "${BENCH:-.}" -benchmem -count 1 "${@:2}"; }
for ((i = 1; i <= ${COUNT:-6}; i++)); do
	echo "round $i of ${COUNT:-6}" >&2
	run "$dir/then" "$@" >>"$dir/then.txt"
	run . "$@" >>"$dir/now.txt"
done
"$go" run "$benchstat" "then=$dir/then.txt" "now=$dir/now.txt"
