#!/usr/bin/env bash
# Prints the packages whose tests can show something to the race detector: the package starts goroutines,
# or it guards what goroutines share and its tests start them. A new package joins by doing so.
set -euo pipefail
cd "$(dirname "$0")/.."

starts='^\s*(defer )?go (func\b|[a-zA-Z_.]+\()|\.Go\(|\bAfterFunc\('
guards='\bsync\.(Mutex|RWMutex|Map|Pool|Cond)\b|\batomic\.[A-Z]'
testStarts="$starts|\.Parallel\(\)|\bhttptest\.New|\bremotetest\.Run"

# has EXPRESSION FILE...: whether a file has a line that matches.
has() { [ $# -gt 1 ] && grep -qE -- "$@"; }

"${GO:-go}" list -f '{{.ImportPath}} {{.Dir}}|{{join .GoFiles " "}}|{{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}' "${@:-./...}" |
	while IFS='|' read -r package code tests; do
		cd "${package#* }"
		read -ra code <<<"$code"
		read -ra tests <<<"$tests"
		[ "${#tests[@]}" -gt 0 ] || continue
		if has "$starts" "${code[@]}" || { has "$guards" "${code[@]}" && has "$testStarts" "${tests[@]}"; }; then
			echo "${package%% *}"
		fi
	done
