#!/bin/sh
# Makes a tree with every kind of file in the folder $1. As root, also foreign owners and devices.
set -eu
umask 022
mkdir -p "$1/d/empty" "$1/private" "$1/sticky"
cd "$1"
printf 'small\n' >small
: >empty
head -c 3000000 /dev/zero >sparse
printf end >>sparse
head -c 500000 /dev/urandom >large
ln small d/link
ln -s small symlink
ln -s /nowhere d/dangling
ln d/dangling d/dangling2
mkfifo -m 620 fifo
printf x >d/mode
chmod 4751 d/mode
chmod 600 large
chmod 1777 sticky
touch -d '1960-01-02 03:04:05.123456789 UTC' small
touch -h -d '2033-01-02 03:04:05.987654321 UTC' symlink
if command -v setfattr >/dev/null; then
	setfattr -n user.note -v hello small
	setfattr -n user.empty d
	setfattr -n user.long -v "$(head -c 2000 /dev/zero | tr '\0' x)" d/mode
fi
if [ "$(id -u)" = 0 ]; then
	chown 1234:4321 large d/empty
	chown -h 12:34 symlink
	chown 1:1 fifo
	chmod 2775 d/empty
	mknod char c 1 3
	mknod block b 7 300
	if command -v setfacl >/dev/null; then
		setfacl -m u:1234:rx,g:77:rwx large
		setfacl -d -m u:1234:rwx private
	fi
	if command -v setcap >/dev/null; then
		cp small capable
		setcap cap_net_raw+ep capable
	fi
	if command -v python3 >/dev/null; then
		python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('socket')"
	fi
fi
chmod 500 private
touch -d '2001-02-03 04:05:06.5 UTC' d/empty d private sticky
