package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/tree/ignore"
)

// hookedFS calls a function before it opens a folder.
type hookedFS struct {
	opener
	before func(path string)
}

func (h *hookedFS) openFolder(path string) (folder, error) {
	h.before(path)
	return h.opener.openFolder(path)
}

// A root that goes away during a scan makes the paths below it unknown, not deleted.
func TestRecheckRoot(t *testing.T) {
	moveAway := func(f *fixture) { f.check(os.Rename(filepath.Join(f.root, "srv"), filepath.Join(f.root, "moved"))) }
	empty := func(f *fixture) {
		for _, name := range []string{"a", "b", "file"} {
			f.remove("srv/" + name)
		}
	}
	for name, test := range map[string]struct {
		leave func(f *fixture) // before the scan opens the first folder below the root
		enter func(f *fixture) // after the scan
		away  string           // the reason that Recheck returns
	}{
		"unchanged":    {away: ""},
		"gone":         {leave: moveAway, away: "no such file or directory"},
		"replaced":     {leave: moveAway, enter: func(f *fixture) { f.write("srv/other", "1") }, away: errReplaced.Error()},
		"emptied":      {leave: empty, away: errEmptied.Error()},
		"part is gone": {leave: func(f *fixture) { f.remove("srv/a"); f.remove("srv/b") }, away: ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newReal(t)
			f.write("srv/a/x", "1")
			f.write("srv/b/x", "2")
			f.write("srv/file", "3")
			f.open(Options{Chunker: cutter(t), Now: f.w.opt.Now, Roots: []string{"srv"}, Jobs: 1})
			f.stage()

			done := test.leave == nil
			f.w.fs = &hookedFS{f.w.fs, func(path string) {
				if strings.HasPrefix(path, "srv/") && !done {
					done = true
					test.leave(f)
				}
			}}
			var anchors Anchors
			found := f.scan(ScanOptions{Anchors: &anchors})
			if test.enter != nil {
				test.enter(f)
			}

			deleted := strings.Contains(strings.Join(found, "\n"), "deleted srv/a/x")
			if want := test.leave != nil; deleted != want {
				t.Errorf("the scan found %q; srv/a/x deleted is %v, want %v", found, deleted, want)
			}
			away := anchors.Recheck(f.w)
			switch {
			case test.away == "" && len(away) > 0:
				t.Errorf("Recheck returned %v, want nothing", away)
			case test.away != "" && (len(away) != 1 || away[0].Path != "srv" || away[0].State != Unreadable || !strings.Contains(away[0].Err.Error(), test.away)):
				t.Errorf("Recheck returned %+v, want srv: %s", away, test.away)
			}
		})
	}
}

// Only paths that vanish after their folder was listed are marked so, tracked or not.
func TestScanVanished(t *testing.T) {
	f := newReal(t)
	f.write("gone", "1")
	f.write("d/tracked/x", "2")
	f.stage()
	f.remove("gone")
	f.write("d/new/x", "3")
	f.w.opt.Jobs = 1

	f.w.fs = &hookedFS{f.w.fs, func(path string) {
		if strings.HasPrefix(path, "d/") {
			f.remove("d/new")
			f.remove("d/tracked")
		}
	}}
	found, err := f.w.Scan(ctx, f.idx, ScanOptions{Anchors: new(Anchors)})
	f.check(err)
	var vanished, other []string
	for i, line := range lines(found) {
		if found[i].Vanished {
			vanished = append(vanished, line)
		} else {
			other = append(other, line)
		}
	}

	same(t, "vanished", vanished, []string{"deleted d/new/", "deleted d/tracked/"})
	same(t, "other", other, []string{"deleted d/tracked/x", "deleted gone"})
}

// Paths that the options exclude, or that are below no root, are excluded and not absent.
func TestScanExcluded(t *testing.T) {
	f := newReal(t)
	f.write("a/x", "1")
	f.write("b/x", "2")
	f.write("c/x", "3")
	f.stage()
	f.remove("c/x")

	f.open(Options{Roots: []string{"b", "c"}})
	patterns, err := ignore.Parse([]byte("/b/x"), "")
	f.check(err)
	exclude := Exclude{Patterns: new(ignore.Matcher).Push(patterns), Drop: true}
	found, err := f.w.Scan(ctx, f.idx, ScanOptions{Exclude: exclude})
	f.check(err)
	excluded := map[string]bool{}
	for _, f := range found {
		if f.State == Deleted {
			excluded[f.Path] = f.Excluded
		}
	}

	same(t, "excluded", excluded, map[string]bool{"a": true, "a/x": true, "b/x": true})
}
