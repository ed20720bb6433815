#!/usr/bin/env bash
# Kills kist, or makes a system call fail, at each system call that changes the disk:
# the first, the second, and so on. After each fault the repository must be intact,
# and HEAD and every file of the worktree must be old or new. A retry of the command
# must succeed. (The repository for repair is not intact before.)
#
#     testdata/sweep.sh KIST [COMMAND...]
#
# KIST is the program. The commands are add, commit, checkout, merge, rewrite
# and repair; the default is all. CALLS and FAULTS select system calls and faults.
# STEP=3 tests every third call. Needs strace. Works in TMPDIR, best on a file system in memory.
set -euo pipefail
export LC_ALL=C TZ=UTC KIST_GC_AUTO=0 KIST_DATE=2026-01-31T12:00:00Z
export KIST_AUTHOR_NAME='Anna Chest' KIST_AUTHOR_EMAIL='anna@chest.example'
umask 022

command -v strace >/dev/null || { echo "sweep.sh: no strace" >&2; exit 2; }
kist=$(realpath "$1")
shift
commands=("$@")
[ $# -gt 0 ] || commands=(add commit checkout merge rewrite repair)
read -ra calls <<<"${CALLS:-fsync msync rename renameat renameat2 pwrite64 write fallocate ftruncate unlinkat mkdirat linkat symlinkat fchmod openat}"
read -ra faults <<<"${FAULTS:-signal=KILL error=ENOSPC error=EIO}"
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT

# line COMMAND: the arguments of kist for a command.
line() {
	case $1 in
	add) echo add -A . ;;
	commit) echo commit -m second ;;
	checkout) echo checkout side ;;
	merge) echo merge side ;;
	repair) echo verify --repair ;;
	rewrite) echo rewrite --yes --all-history b/1 ;;
	esac
}

noise() { openssl enc -aes-128-ctr -pass "pass:$2" -nosalt -pbkdf2 -in /dev/zero 2>/dev/null | head -c "$1" || true; }

# files: the files of the current folder, with their contents.
files() {
	find . -name .kist -prune -o -type f -exec sha256sum {} + | sort -k2
	find . -name .kist -prune -o -type l -printf '%l  %p\n' | sort -k2
}

# state: everything that a command may change.
state() {
	files
	"$kist" log -1 --json | sed 's/.*"id":"\([0-9a-f]*\)".*/HEAD \1/;q'
	"$kist" status --porcelain=v1 --branch 2>/dev/null || "$kist" status --porcelain
	"$kist" branch --json
	"$kist" tag --json
	"$kist" hold list --json
	"$kist" expire --list --json
}

# damage FILE: flips a bit in the middle of the file.
damage() {
	local at=$(($(stat -c %s "$1") / 2)) byte
	chmod u+w "$1"
	byte=$(od -An -tu1 -j $at -N 1 "$1")
	printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$1" bs=1 seek=$at conv=notrunc
}

prepare() {
	mkdir "$work/start" && cd "$work/start"
	"$kist" init -q --chunk-size 64KiB .
	mkdir -p a b/c
	noise 300000 1 >a/large
	for i in 1 2 3; do echo "file $i of the first version, more than 32 bytes" >"b/$i"; done
	echo short >b/c/short
	ln -s ../a/large b/link
	"$kist" add -A . && "$kist" commit -q -m first
	"$kist" checkout -q -b side
	noise 300000 2 >a/large
	echo "file 1 of the second version, more than 32 bytes" >b/1
	rm b/2
	mkdir d
	echo new >d/new
	ln -sf elsewhere b/link
	"$kist" add -A . && "$kist" commit -q -m side
	"$kist" checkout -q main
	cp -a "$work/start" "$work/checkout"

	cp -a "$work/start" "$work/rewrite" && cd "$work/rewrite"
	"$kist" tag -m noted noted
	for i in 1 2 3; do "$kist" commit -q --allow-empty -m "empty $i"; done
	"$kist" expire HEAD~2
	"$kist" branch other HEAD~1

	# Some files have flipped bits, and one volume is missing. A remote has everything.
	cp -a "$work/rewrite" "$work/repair" && cd "$work/repair"
	"$kist" hold add side
	mkdir "$work/remote"
	"$kist" tag -m 'has a volume of its own' alone
	"$kist" remote add --no-check origin "$work/remote"
	"$kist" push --all --tags
	local volumes=(.kist/volumes/*/) i
	for i in 0 2; do damage "${volumes[i]}000001.vlog"; done
	damage "${volumes[1]}KEYS"
	damage .kist/index
	damage .kist/refs/heads/other
	damage .kist/logs/HEAD
	damage .kist/records
	chmod -R u+w "${volumes[-1]}" && rm -r "${volumes[-1]}"
	cd "$work/start"

	echo "file 3 of the second version, more than 32 bytes" >b/3
	noise 200000 3 >e
	cp -a "$work/start" "$work/add"
	"$kist" add -A .
	cp -a "$work/start" "$work/commit"
	"$kist" commit -q -m second
	cp -a "$work/start" "$work/merge"
} >/dev/null 2>&1

bad=0
fail() {
	bad=$((bad + 1))
	echo "FAILED: $*"
}

# check COMMAND WHAT STATUS OUTPUT: check the state after a command with a fault, and retry it.
check() {
	local command=$1 what=$2 status=$3 output=$4 out new
	if grep -qE 'panic:|fatal error:|goroutine |unexpected fault' <<<"$output"; then
		fail "$what: crashed: $output"
	fi
	if [ "$command" = repair ]; then
		out=$("$kist" $(line repair) 2>&1) || fail "$what: the retry fails: $out"
	fi
	out=$("$kist" verify --read-data 2>&1) || fail "$what: the repository is damaged: $out"
	while read -r sum name; do
		grep -qxF "$sum  $name" "$work/$command.old" "$work/$command.new" || fail "$what: $name is neither old nor new"
	done < <(files)
	new=$(state)
	if [ "$status" = 0 ]; then
		[ "$new" = "$(cat "$work/$command.new")" ] || fail "$what: exit status 0, but the result is wrong"
		return
	fi
	if [ "$new" != "$(cat "$work/$command.new")" ]; then
		if ! out=$("$kist" $(line "$command") 2>&1); then
			# A merge that was killed between index and merge state must be aborted first.
			case $command in
			merge) "$kist" merge --abort >/dev/null 2>&1 || "$kist" reset -q --hard >/dev/null 2>&1
				out=$("$kist" $(line "$command") 2>&1) || fail "$what: the retry after an abort fails: $out"
				aborted=$((aborted + 1)) ;;
			*) fail "$what: the retry fails: $out" ;;
			esac
		fi
	fi
	new=$(state)
	[ "$new" = "$(cat "$work/$command.new")" ] || fail "$what: the retry has a different result: $(diff <(echo "$new") "$work/$command.new")"
	out=$("$kist" verify 2>&1) || fail "$what: the repository is damaged after the retry: $out"
}

prepare
for command in "${commands[@]}"; do
	cp -a "$work/$command" "$work/reference"
	cd "$work/reference"
	state >"$work/$command.old" 2>/dev/null || [ "$command" = repair ]
	"$kist" $(line "$command") >/dev/null 2>&1
	state >"$work/$command.new"
	cd "$work" && chmod -R u+w reference && rm -rf reference
	for call in "${calls[@]}"; do
		for fault in "${faults[@]}"; do
			met=0 succeeded=0 aborted=0
			for ((n = 1; ; n += ${STEP:-1})); do
				cp -a "$work/$command" "$work/now"
				cd "$work/now"
				status=0
				output=$(GOMAXPROCS=1 strace -f -qq -o "$work/trace" -e "trace=$call" -e "inject=$call:$fault:when=$n" "$kist" $(line "$command") 2>&1) || status=$?
				injected=0
				if [ "$fault" = signal=KILL ]; then
					[ $status -ge 128 ] && injected=1
				else
					grep -q INJECTED "$work/trace" && injected=1
				fi
				if [ $injected = 1 ]; then
					met=$((met + 1))
					[ $status != 0 ] || succeeded=$((succeeded + 1))
					# A failed sync must give an error, or a warning if only a note is affected.
					case $call:$fault in
					[fm]sync:error=*) [ $status != 0 ] || grep -q "^warning:" <<<"$output" || fail "$command: $call $n, $fault: neither error nor warning" ;;
					esac
					check "$command" "$command: $call $n, $fault" $status "$output"
				fi
				cd "$work"
				chmod -R u+w now
				rm -rf now
				[ $injected = 1 ] || break
			done
			[ $met = 0 ] || echo "$command: $call, $fault: $met faults, $succeeded without effect, $aborted aborted before the retry"
		done
	done
done
[ $bad = 0 ] || { echo "$bad failures"; exit 1; }
echo "no failures"
