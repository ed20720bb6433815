#!/usr/bin/env bash
# Makes the golden repositories of this folder:
#
#     testdata/golden/make.sh KIST DIR [NAME...]
#
# with the program KIST, into DIR. NAMEs select repositories, which must be intact ones. The first
# version of the format made the committed archives. golden_test.go in cmd/kist checks that later
# versions read them. So run this only for new repositories, and never replace an archive.
#
# Each archive is a tar of a repository's .kist, and of its files if they matter; sent and
# encrypted are tars of a folder remote. Beside it are NAME.log, the output of 'kist log --json', and NAME.REV.gz, the
# files of a revision, one a line: type, permissions, SHA-256 of the content or of a link's target,
# and path with odd bytes as %XX. full has every kind of entry with full metadata, and full.ls is
# the output of 'kist ls --json'.
#
# It needs root and strace. Times are fixed. The chunker's polynomial and the names of volumes are
# random, so IDs that depend on large files differ each time.
set -euo pipefail

# Commits record the host name, so it must not depend on the machine.
if [ "$(hostname)" != chest.example ]; then
	exec unshare --uts sh -c 'hostname chest.example && exec "$@"' - "$0" "$@"
fi
export LC_ALL=C TZ=UTC KIST_GC_AUTO=0
export KIST_AUTHOR_NAME='Anna Chest' KIST_AUTHOR_EMAIL='anna@chest.example'
umask 022

kist=$(realpath "$1")
alltypes=$(realpath "$(dirname "$0")/../alltypes.sh")
keys=$(realpath "$(dirname "$0")/../../remote/keyset/testdata")
out=$(realpath "$2")
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT

kist() { "$kist" "$@"; }

# at N: set the time to N minutes past noon.
at() { export KIST_DATE="2026-01-31T12:$(printf %02d "$1"):00Z"; }

# lines N WORD: print N lines of text.
lines() { awk -v n="$1" -v w="$2" 'BEGIN { for (i = 1; i <= n; i++) printf "%s: line %d of many that are much alike\n", w, i }'; }

# escaped PATH: print the path in the form of lists.
escaped() {
	local i c
	for ((i = 0; i < ${#1}; i++)); do
		c=${1:i:1}
		case $c in
		[A-Za-z0-9/._-]) printf %s "$c" ;;
		*) printf '%%%02X' "$(printf %d "'$c")" | sed 's/FFFFFFFFFFFFFF//' ;;
		esac
	done
}

# list: print the files of the current folder, for NAME.REV.gz.
list() {
	find . -mindepth 1 -name .kist -prune -o -mindepth 1 -printf '%y %m %P\0' | sort -z -k3 | while IFS= read -r -d '' line; do
		read -r type mode _ <<<"$line"
		path=${line#"$type $mode "}
		case $type in
		f) sum=$(sha256sum <"$path") ;;
		l) sum=$(readlink -n "$path" | sha256sum) ;;
		d) sum=- ;;
		esac
		echo "$type $mode ${sum%% *} $(escaped "$path")"
	done | gzip -9n
}

# keep NAME [PATH...]: put .kist, and other paths, into an archive.
keep() {
	local name=$1
	shift
	# A lock contains only a process number.
	find .kist -name '*.lock' -exec truncate -s 0 {} +
	archive "$name" .kist "$@"
}

# archive NAME PATH...: put paths into an archive.
archive() {
	tar --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime=2026-01-31 --sparse -cf - "${@:2}" | gzip -9n >"$out/$1.tar.gz"
}

# flip FILE OFFSET: change the lowest bit of a byte.
flip() {
	local byte
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	chmod u+w "$1"
	printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# find_in FILE TEXT: print the offset of a text in a file.
find_in() { grep -obUaF -- "$2" "$1" | head -1 | cut -d: -f1; }

plain() {
	mkdir "$work/plain" && cd "$work/plain"
	at 0
	kist init --chunk-size 64KiB .
	: >empty
	printf 1 >byte
	printf 12345678901234567890123456789012 >inline
	printf 123456789012345678901234567890123 >chunk
	lines 500 'one chunk' >one-chunk
	lines 9000 'several chunks' >several-chunks
	mkdir -p empty-folder folder/below private
	echo text >folder/below/file
	printf '#!/bin/sh\necho hello\n' >run
	chmod 755 run
	echo secret >private/key
	chmod 600 private/key
	chmod 700 private
	chmod 444 inline
	ln -s folder/below/file link
	ln -s /nowhere/at/all dangling
	ln -s . folder/loop
	echo odd >'a name with spaces'
	echo odd >$'line\nbreak'
	echo odd >$'tab\tand \\ and "quotes"'
	echo odd >$'not UTF-8: \xff\xfe'
	echo odd >$'caf\xc3\xa9'
	echo odd >$'cafe\xcc\x81'
	echo odd >-n
	echo odd >"$(printf 'n%.0s' {1..255})"
	printf 'ignored\n*.tmp\n' >.kistignore
	echo not stored >x.tmp
	kist add .
	at 1
	kist commit -m 'All kinds of files

With a second paragraph, and an umlaut: ä.'
	kist tag one
	rm x.tmp
	list >"$out/plain.one.gz"

	{ lines 300 'put in front'; cat several-chunks; } >changed
	mv changed several-chunks
	rm -r empty-folder one-chunk
	mv folder moved
	rm link
	mkdir link
	echo 'no link any more, but a folder' >link/file
	chmod 755 private/key
	ln -sf elsewhere dangling
	kist add -A .
	at 2
	kist commit -m 'Changed, removed, moved'
	kist tag two
	list >"$out/plain.two.gz"
	kist log --json >"$out/plain.log"
	kist verify --read-data
	keep plain
}

merged() {
	mkdir "$work/merged" && cd "$work/merged"
	at 0
	kist init .
	lines 40 poem >poem
	echo base >both
	echo base >only-theirs
	kist add .
	at 1
	kist commit -m base
	kist tag -m 'An annotated tag' v1
	kist checkout -b side
	sed -i '2s/.*/theirs/' poem
	echo new >theirs
	rm only-theirs
	kist add -A .
	at 2
	kist commit -m side
	kist checkout main
	sed -i '38s/.*/ours/' poem
	echo new >ours
	kist add -A .
	at 3
	kist commit -m main
	at 4
	kist merge side
	kist tag light
	list >"$out/merged.light.gz"
	echo 'a mistake' >mistake
	kist add mistake
	at 5
	kist commit -m 'A mistake'
	at 6
	kist revert HEAD
	kist branch topic/deep/er light
	kist branch gone
	kist branch -d gone
	kist checkout side
	echo 'by theirs' >both
	kist add both
	at 7
	kist commit -m 'Both, theirs'
	kist checkout main
	echo 'by ours' >both
	kist add both
	at 8
	kist commit -m 'Both, ours'
	list >"$out/merged.main.gz"
	at 9
	kist merge side && exit 1
	[ -f .kist/MERGE_HEAD ]
	list >"$out/merged.worktree.gz"
	kist log --all --json >"$out/merged.log"
	kist verify --read-data
	keep merged both poem ours theirs
}

big() {
	mkdir "$work/big" && cd "$work/big"
	at 0
	kist init .
	mkdir folder
	for i in {1..6000}; do printf "$((i % 10))2345678901234567890123456789012" >"folder/entry-$i"; done
	kist add .
	at 1
	kist commit -m 'A folder of 6,000 entries'
	kist tag one
	list >"$out/big.one.gz"
	rm folder/entry-7{00..49}
	echo changed >folder/entry-800
	kist add -A .
	at 2
	kist commit -m 'A change in the middle'
	kist tag two
	list >"$out/big.two.gz"
	kist log --json >"$out/big.log"
	ls -l .kist/index*
	kist verify --read-data
	keep big
}

# optimised: versions after 'gc --repack', some stored as patches.
optimised() {
	mkdir "$work/optimised" && cd "$work/optimised"
	at 0
	kist init .
	mkdir folder
	lines 400 poem >poem
	lines 300 neighbour >folder/neighbour
	local i
	for i in {1..12}; do
		sed -i "$((30 * i))s/.*/changed in version $i/" poem
		echo "only in version $i, which is more than 32 bytes" >"folder/$i"
		kist add -A .
		at "$i"
		kist commit -m "Version $i"
		if [ "$i" = 1 ]; then
			kist tag one
			list >"$out/optimised.one.gz"
		fi
	done
	list >"$out/optimised.main.gz"
	kist log --json >"$out/optimised.log"
	kist gc --repack --prune 0s
	grep -qx optimised .kist/volumes/*/SEAL
	kist verify --read-data
	keep optimised
}

# full: every kind of entry, with full metadata.
full() {
	"$alltypes" "$work/full" && cd "$work/full"
	rm sparse
	echo 'not large, but with an ACL' >large
	find . -newermt '2026-01-31 12:00' ! -newermt '2033-01-01' -exec touch -h -d '2026-01-31 12:00:00.000000001 UTC' {} +
	at 0
	kist init --metadata full .
	kist add .
	at 1
	kist commit -m 'Every kind of entry'
	kist ls -r -t --json HEAD >"$out/full.ls"
	kist log --json >"$out/full.log"
	kist verify --read-data
	keep full
}

# versions FROM TO: make commits with small changes.
versions() {
	local i
	for ((i = $1; i <= $2; i++)); do
		sed -i "$((30 * i))s/.*/changed in version $i/" poem
		echo "only in version $i, which is more than 32 bytes" >"folder/$i"
		kist add -A .
		at "$i"
		kist commit -m "Version $i"
	done
}

# sent: a remote with optimised packs and one pack of the first version.
sent() {
	mkdir "$work/sent" && cd "$work/sent"
	at 0
	kist init .
	mkdir folder
	lines 400 poem >poem
	lines 300 neighbour >folder/neighbour
	kist remote add origin "$work/remote"
	versions 1 1
	kist tag one
	list >"$out/sent.one.gz"
	versions 2 12
	kist push origin main one
	kist remote gc origin --repack --grace 0s
	versions 13 13
	kist push
	list >"$out/sent.main.gz"
	kist log --json >"$out/sent.log"
	kist verify --remote origin --read-data
	cd .. && archive sent remote
}

# encrypted: an encrypted remote with two epochs, both envelopes, a removed recipient, and packs with patches. The identity of
# encrypted.identity and the one of remote/keyset/testdata/vector-classic.txt open it.
encrypted() {
	mkdir "$work/encrypted" "$work/home" && cd "$work/encrypted"
	export HOME=$work/home KIST_IDENTITY=$work/home/identity
	[ -f "$out/encrypted.identity" ] || kist key new "$out/encrypted.identity"
	install -m 600 "$out/encrypted.identity" "$KIST_IDENTITY"
	at 0
	kist init .
	mkdir folder
	lines 400 poem >poem
	lines 300 neighbour >folder/neighbour
	kist remote add --encrypted --no-recovery origin "$work/crypt"
	versions 1 1
	kist tag one
	list >"$out/encrypted.one.gz"
	versions 2 6
	kist push origin main one
	kist remote gc origin --repack --grace 0s
	kist key add origin --name classic "$(grep -o '"classic","recipient":"[^"]*' "$keys/vector.json" | cut -d'"' -f6)"
	kist key new "$work/home/old" >"$work/home/old.pub"
	kist key add origin --name old "$work/home/old.pub"
	kist key remove origin old
	versions 7 8
	kist push
	list >"$out/encrypted.main.gz"
	kist log --json >"$out/encrypted.log"
	kist verify --remote origin --read-data
	cd .. && archive encrypted crypt
}

# small: the repository that is damaged below. It has two commits, so two volumes with files and
# two with trees.
small() {
	mkdir "$work/small" && cd "$work/small"
	at 0
	kist init .
	echo 'the first file, which is more than what stands in an entry' >first
	echo 'the same in both commits, and longer than 32 bytes' >same
	mkdir folder
	echo 'a file in a folder, longer than 32 bytes as well' >folder/file
	kist add .
	at 1
	kist commit -m 'First'
	kist tag one
	list >"$out/small.one.gz"
	echo 'the first file, of which this is the second version' >first
	kist add .
	at 2
	kist commit -m 'Second'
	list >"$out/small.main.gz"
	kist log --json >"$out/small.log"
	kist verify --read-data
	keep small first same folder
}

# damaged REPOSITORY NAME: archive a copy of a repository after the function d_NAME damaged it in
# its .kist. $files and $trees are the volumes of the first commit.
damaged() {
	cp -a "$work/$1" "$work/damaged"
	cd "$work/damaged/.kist"
	files=volumes/$(ls volumes | sed -n 1p)
	trees=volumes/$(ls volumes | sed -n 2p)
	"d_$2"
	cd ..
	local name=damaged-${2//_/-}
	if [ "$1" = small ]; then keep "$name" first same folder; else keep "$name"; fi
	cd "$work"
	chmod -R u+w damaged
	rm -r damaged
}

d_value() { flip "$files/000001.vlog" $(($(find_in "$files/000001.vlog" 'the same in both') + 4)); }
d_tree_value() { flip "$trees/000001.vlog" $(($(find_in "$trees/000001.vlog" 'folder') + 2)); }
d_keys() { flip "$files/KEYS" $(($(stat -c %s "$files/KEYS") / 2)); }
d_seal() { flip "$files/SEAL" 40; }
d_cut_log() { chmod u+w "$files/000001.vlog" && truncate -s -60 "$files/000001.vlog"; }
d_cut_table() { chmod u+w "$files/000001.sst" && truncate -s -60 "$files/000001.sst"; }
d_no_log() { chmod u+w "$files" && rm -f "$files/000001.vlog"; }
d_no_table() { chmod u+w "$files" && rm -f "$files/000001.sst"; }
d_no_seal() { chmod u+w "$files" && rm -f "$files/SEAL"; }
d_no_keys() { chmod u+w "$files" && rm -f "$files/KEYS"; }
d_no_volume() { chmod u+w "$files" && rm -rf "$files"; }
d_more_files() { chmod u+w "$files" && echo stray >"$files/000002.vlog"; }
d_index_head() { flip index 3; }
d_index_middle() { flip index $(($(stat -c %s index) / 2)); }
d_index_cut() { truncate -s -7 index; }
d_index_empty() { truncate -s 0 index; }
d_index_base() { flip index.base-* 100000; }
d_no_index_base() { rm index.base-*; }
d_ref() { flip refs/heads/main 5; }
d_ref_text() { printf 'no ID at all\n' >refs/heads/main; }
d_ref_empty() { : >refs/heads/main; }
d_head() { flip HEAD 2; }
d_head_empty() { : >HEAD; }
d_no_head() { rm HEAD; }
d_reflog() { flip logs/HEAD 20; }
d_config_syntax() { printf 'version = = 1\n' >config; }
d_config_newer() { sed -i 's/^version = 1$/version = 2/' config; }
d_config_extension() { sed -i 's/^required = .*/required = ["rot13"]/' config; }
d_config_polynomial() { sed -i 's/polynomial = .*/polynomial = "0x3"/' config; }
d_no_config() { rm config; }

# A process was killed while it wrote a volume.
d_dead_writer() {
	cd ..
	lines 4000 killed >killed
	{ strace -f -qq -o /dev/null -e trace=renameat2 -e inject=renameat2:signal=KILL:when=1 "$kist" add killed || true; } 2>/dev/null
	ls .kist/volumes | grep -q ^tmp-
	rm killed
	cd .kist
}

# Likewise, and not all of the volume reached the disk.
d_torn_writer() {
	d_dead_writer
	local tmp
	tmp=$(echo volumes/tmp-*/)
	rm "$tmp"/SEAL "$tmp"/KEYS
	truncate -s -100 "$tmp"/000001.vlog
}

if [ $# -gt 2 ]; then
	for name in "${@:3}"; do (set -e; $name); done
	exit
fi
for name in plain merged big optimised sent encrypted small full; do (set -e; $name); done
for name in $(declare -F | sed -n 's/^declare -f d_//p'); do
	case $name in
	*index_base) (set -e; damaged big $name) ;;
	*) (set -e; damaged small $name) ;;
	esac
done
du -bc "$out"/* | tail -1
