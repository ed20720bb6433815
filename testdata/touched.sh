#!/usr/bin/env bash
# Prints the packages with files that differ from $BASE: by default the point where this branch left
# origin/main, or else the commit before HEAD. Without a history, it prints all packages.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
base=${BASE:-$(git merge-base HEAD origin/main 2>/dev/null || true)}
if [ -z "${BASE:-}" ] && { [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; }; then
	base=HEAD~1
fi
if ! files=$(git diff --name-only "$base" -- 2>/dev/null); then
	"$go" list ./...
	exit
fi

# The files of a test, as in testdata/fuzz, belong to the package above them.
root=$("$go" list -m)
folders=$(sed -e 's|^|./|' -e 's|/[^/]*$||' -e 's|/testdata\(/.*\)\?$||' <<<"$files" | sort -u)
"$go" list ./... | while read -r package; do
	if grep -qxF ".${package#"$root"}" <<<"$folders"; then
		echo "$package"
	fi
done
