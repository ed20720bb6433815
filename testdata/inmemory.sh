#!/usr/bin/env bash
# Runs a command with a temporary folder in memory: a test of files waits for syncs of a disk most of the
# time. It does nothing special if TMPDIR is set, or if /dev/shm has less than 4 GiB or runs no programs.
set -euo pipefail

memory=/dev/shm
if [ -n "${TMPDIR:-}" ] || ! dir=$(mktemp -d "$memory/kist-tests-XXXXXX" 2>/dev/null); then
	exec "$@"
fi
trap 'chmod -R u+rwx "$dir"; rm -rf "$dir"' EXIT
chmod 1777 "$dir" # tests also run as other users
printf '#!/bin/sh\n' >"$dir/program"
chmod +x "$dir/program"
if [ "$(df --output=avail -k "$dir" | tail -n 1)" -lt $((4 << 20)) ] || ! "$dir/program" 2>/dev/null; then
	"$@"
	exit
fi

# What go builds stays on the disk.
export GOTMPDIR=${GOTMPDIR:-/tmp} TMPDIR=$dir
"$@"
