package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
)

// add, commit, ls and restore keep a time that does not fit into 64 bits of nanoseconds, as
// exactly as the file system keeps it.
func TestFarTimes(t *testing.T) {
	p := newPlace(t)
	want := map[string]time.Time{}
	for name, year := range map[string]int{"late": 2300, "early": 1600} {
		p.write(name, name)
		ts, err := unix.TimeToTimespec(time.Date(year, 1, 1, 12, 0, 0, 7, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(p.env.Dir, name)
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, at, []unix.Timespec{ts, ts}, 0); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(at)
		if err != nil {
			t.Fatal(err)
		}
		want[name] = st.ModTime().UTC()
	}
	p.run("add", "-A")
	p.run("commit", "-m", "far")
	same(t, p.run("status", "--short"), "")

	out := filepath.Join(t.TempDir(), "out")
	p.run("restore", "--to", out, "--source", "HEAD", ".")
	for name, at := range want {
		if long := p.run("ls", "-l", "HEAD:"+name); !strings.Contains(long, at.Format("2006-01-02 15:04")) {
			t.Errorf("ls -l %s prints %q, want the time %v", name, long, at)
		}
		var entry jsonform.Entry
		if err := json.Unmarshal([]byte(p.run("ls", "--json", "HEAD:"+name)), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.MTime == nil || !entry.MTime.Equal(at) {
			t.Errorf("ls --json %s prints %v, want %v", name, entry.MTime, at)
		}
		st, err := os.Stat(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		if !st.ModTime().Equal(at) {
			t.Errorf("%s has the time %v after restore, want %v", name, st.ModTime().UTC(), at)
		}
	}
}

// JSON can represent the time of an entry, however far it is.
func TestEntryTimeIsJSON(t *testing.T) {
	for _, sec := range []int64{1<<63 - 1, 1 << 62, 253402300800, 1, -62167219201, -1 << 62, -1 << 63} {
		e := object.Entry{Name: "f", Type: object.TypeFile, MTime: object.Time{Sec: sec, Nsec: 1}}
		if _, err := json.Marshal(jsonform.NewEntry("f", e)); err != nil {
			t.Errorf("encode the time %d s: %v", sec, err)
		}
	}
}
