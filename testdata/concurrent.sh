#!/usr/bin/env bash
# Prints the packages in which the race detector can find something: those that start goroutines, or
# guard what goroutines share. A new package joins by doing so.
set -euo pipefail
cd "$(dirname "$0")/.."

"${GO:-go}" list -f '{{$p := .}}{{range .GoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}' "${@:-./...}" |
	while read -r package file; do
		[ -n "$file" ] || continue
		if grep -qE '^\s*(defer )?go (func\b|[a-zA-Z_.]+\()|\.Go\(|"(sync|sync/atomic|golang\.org/x/sync/errgroup)"' "$file"; then
			echo "$package"
		fi
	done | uniq
