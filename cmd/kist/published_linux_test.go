package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// needsFUSE skips a test without FUSE.
func needsFUSE(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		objecttest.Skip(t, "FUSE is needed: ", err)
	} else {
		f.Close()
	}
	needsRoot(t)
}

// TestPublishHowto runs the commands of docs/howto/publish.md.
func TestPublishHowto(t *testing.T) {
	t.Parallel()
	needsFUSE(t)
	s := newShell(t)
	www, mnt := s.path("../www"), s.path("../mnt")
	for _, dir := range []string{www, mnt} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { syscall.Unmount(mnt, syscall.MNT_DETACH) })
	s.write(map[string]string{"measurements.csv": "1,10\n"})
	server := remotetest.NewNginx(t, www, "")

	// The mount and the server run beside the next commands, until the end.
	s.page("publish.md", `export KIST_HTTP_CA=`+server.CAFile+`
running=
kist() {
	case "$*" in
	mount*) ;;
	*serve) set -- "$@" --listen 127.0.0.1:0 ;;
	*) command kist "$@"; return ;;
	esac
	rm -f begun
	mkfifo begun
	command kist "$@" >begun 2>begun.log &
	running="$running $!"
	trap "kill $running" EXIT
	read line <begun
}`, "https://data.example.org", server.URL, "/srv/www", www, "/mnt/data", mnt)

	if got, err := os.ReadFile(s.path("copy/measurements.csv")); err != nil || !strings.HasSuffix(string(got), "2,20\n") {
		t.Errorf("the clone has %q, %v, want the second release", got, err)
	}
}
