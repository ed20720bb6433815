#!/usr/bin/env bash
# Shows kist's main job on a copy of a real folder, the source of Go's standard library or
# $KIST_TRY_DIR, and checks every result. 'make try' runs this. 'make look' sets
# KIST_TRY_SERVE, to serve the repository at the end.
set -euo pipefail

kist=${KIST:?run this with \'make try\'}
source=${KIST_TRY_DIR:-$("${GO:-go}" env GOROOT)/src}
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp" && rm -rf "$tmp"' EXIT
mkdir "$tmp/bin"
ln -s "$kist" "$tmp/bin/kist"
PATH=$tmp/bin:$PATH
began=$SECONDS

fail() {
	echo "error: $*" >&2
	exit 1
}

# say prints a heading. run prints a command and runs it. expect fails unless the output of the
# last command contains a text.
bold='' cyan='' plain=''
if [ -t 1 ]; then
	bold=$'\033[1m' cyan=$'\033[36m' plain=$'\033[m'
fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
run() {
	printf '%s$ %s%s\n' "$cyan" "$*" "$plain"
	local status=0
	"$@" >"$tmp/out" || status=$?
	head -n "${LINES_SHOWN:-12}" "$tmp/out"
	local more=$(($(wc -l <"$tmp/out") - ${LINES_SHOWN:-12}))
	if [ "$more" -gt 0 ]; then
		echo "… $more more lines"
	fi
	if [ "$status" != "${WANT:-0}" ]; then
		fail "'$*' ended with status $status"
	fi
}
expect() { grep -qF -- "$1" "$tmp/out" || fail "the output lacks: $1"; }
same() {
	diff -r --no-dereference --exclude .kist "$1" "$2" >&2 || fail "$1 and $2 differ"
	local list='%P %y %m %l\n'
	diff <(cd "$1" && find . -name .kist -prune -o -mindepth 1 -printf "$list" | sort) \
		<(cd "$2" && find . -name .kist -prune -o -mindepth 1 -printf "$list" | sort) >&2 ||
		fail "$1 and $2 differ in modes"
}

say "a folder: a copy of $source"
run cp -r "$source" "$tmp/project"
chmod -R u+w "$tmp/project"
cp -a "$tmp/project" "$tmp/first"
cd "$tmp/project"
echo "$(find . -type f | wc -l) files, $(du -sh . | cut -f1)"

say "make it a repository, and commit all files"
run kist init
run kist add .
run kist commit -m "first"
run kist status
expect "nothing to commit"

say "change something"
changed=$(find . -name .kist -prune -o -type f -size +4k -name '*.go' -print | sort | sed -n 1p)
removed=$(find . -name .kist -prune -o -type f -size +4k -name '*.go' -print | sort | sed -n '$p')
changed=${changed#./} removed=${removed#./}
folder=$(find . -mindepth 1 -maxdepth 1 -type d ! -name .kist | sort | sed -n '$p')
echo "// changed" >>"$changed"
rm "$removed"
mv "$folder" moved
head -c 20000000 /dev/urandom >film.raw
echo "a new file" >"with space.txt"

say "what has changed?"
run kist status --short
expect " M $changed"
run kist diff -- "$changed"
expect "+// changed"

say "commit the changes: a moved folder takes no space"
run kist add -A
run kist status --short
run kist commit -m "second: a film, a move, an edit"
cp -a "$tmp/project" "$tmp/second"
rm -rf "$tmp/second/.kist"
LINES_SHOWN=6 run kist log
run kist log --oneline --stat -n 1
run kist show --stat HEAD

say "back to the first version, and forward again"
run kist checkout HEAD~1
same "$tmp/first" "$tmp/project"
run kist checkout main
same "$tmp/second" "$tmp/project"

say "an old version beside the new one, and a single file"
run kist restore --source HEAD~1 --to "$tmp/old" .
same "$tmp/first" "$tmp/old"
run kist cat "HEAD~1:$changed"
cmp "$tmp/out" "$tmp/first/$changed" || fail "cat prints a different $changed"

say "a branch, and a merge"
run kist checkout -b idea
echo "an idea" >idea.txt
run kist add idea.txt
run kist commit -m "an idea"
run kist checkout main
echo "meanwhile" >meanwhile.txt
run kist add meanwhile.txt
run kist commit -m "meanwhile"
run kist merge idea
[ -f idea.txt ] && [ -f meanwhile.txt ] || fail "the merge lost a file"
run kist log --graph --oneline

say "two films that differ only at the beginning share the rest"
{ echo "another beginning" && cat film.raw; } >film2.raw
run kist add -n film2.raw
run kist add film2.raw
run kist commit -m "another cut"

say "push to another disk; a clone of it is equal"
run kist remote add origin "$tmp/disk"
run kist push --all
rm -rf "$tmp/clone"
run kist clone "$tmp/disk" "$tmp/clone"
same "$tmp/project" "$tmp/clone"
run kist -C "$tmp/clone" verify --read-data

say "push a change from the clone, and pull it"
echo "// from the clone" >>"$tmp/clone/$changed"
run kist -C "$tmp/clone" commit -a -m "from the clone"
run kist -C "$tmp/clone" push
run kist pull
same "$tmp/project" "$tmp/clone"
run kist remote log
run kist push
expect "Everything up to date."

say "is everything intact?"
run kist verify --read-data
echo "folder: $(du -sh --exclude .kist . | cut -f1), repository: $(du -sh .kist | cut -f1) for all versions"

printf '\nAll results were checked, in %d seconds.\n' $((SECONDS - began))

if [ -n "${KIST_TRY_SERVE:-}" ]; then
	say "look at it in a browser; ^C ends the server"
	kist serve --listen "${LISTEN:-127.0.0.1:8460}"
fi
