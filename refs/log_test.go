package refs

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

func TestLogEntries(t *testing.T) {
	s := newStore(t)
	for i, test := range []struct {
		who, wantWho       Who
		reason, wantReason string
	}{
		{ann, ann, "commit: fix", "commit: fix"},
		{Who{}, Who{}, "", ""},
		{Who{Name: "", Email: "a@b"}, Who{Name: "", Email: "a@b"}, "x", "x"},
		{Who{Name: "A <b> C", Email: "<a@b>"}, Who{Name: "A b C", Email: "a@b"}, "x <y> z", "x <y> z"},
		{Who{Name: " A\nB\t\tC ", Email: "a\x00b"}, Who{Name: "A B C", Email: "a b"}, "one\ntwo\r\n\n three\x1b[31m\t", "one two three [31m"},
		{Who{Name: "Zoë\xff"}, Who{Name: "Zoë\uFFFD"}, "é\xc3", "é\uFFFD"},
		{Who{Name: strings.Repeat("é", 200)}, Who{Name: strings.Repeat("é", 128)}, strings.Repeat("x", 1023) + "é", strings.Repeat("x", 1023)},
	} {
		change := []Change{{Name: Heads + "main", Old: id(i), New: id(i + 1), Reason: test.reason}}
		if i == 0 {
			change[0].Old = object.ID{}
		}
		if err := s.Update(ctx, change, test.who); err != nil {
			t.Fatal(err)
		}

		entries, err := s.Log(Heads + "main")
		if err != nil || len(entries) != i+1 {
			t.Fatalf("%d entries, %v", len(entries), err)
		}
		got, at := entries[0], s.now().Add(-time.Minute)
		want := LogEntry{change[0].Old, id(i + 1), test.wantWho, at, test.wantReason}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if _, offset := got.Time.Zone(); offset != 3600 {
			t.Errorf("offset of zone is %d, want 3600", offset)
		}
	}

	if entries, err := s.Log("refs/heads/none"); len(entries) > 0 || err != nil {
		t.Error(entries, err)
	}
	if _, err := s.Log("refs/heads/../../config"); err == nil {
		t.Error("read the log of a bad name")
	}
}

// A log keeps the exact time in a zone with odd seconds. It refuses a year after 9999.
func TestLogTimes(t *testing.T) {
	at := time.Date(1890, 1, 1, 0, 0, 0, 5, time.FixedZone("", 1172))
	s := Open(t.TempDir(), func() time.Time { return at })
	s.set(t, "refs/heads/a", id(1))
	if entries, err := s.Log("refs/heads/a"); err != nil || !entries[0].Time.Equal(at) {
		t.Error(entries, err)
	}
	at = time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := s.Update(ctx, []Change{{Name: "refs/heads/a", Old: id(1), New: id(2)}}, ann); err == nil {
		t.Error("wrote the year 12026")
	}
	if got := s.all(t); got != "heads/a=1" {
		t.Error(got)
	}
}

// A reader skips a torn last line of a log, and the next move removes it.
func TestTornLog(t *testing.T) {
	s := newStore(t)
	name := Heads + "main"
	s.set(t, name, id(1))
	one := s.mustRead(t, "logs/"+name)
	s.set(t, name, id(2))
	two := s.mustRead(t, "logs/"+name)
	last := two[len(one):]
	for cut := 0; cut < len(last); cut += 7 {
		for _, torn := range []string{last[:cut], strings.Repeat("z", 3*cut), "\x00" + strings.Repeat("z", 3*cut) + "\n", strings.Repeat("\x00", cut), strings.Repeat("\x00", cut+1) + last[cut+1:]} {
			for _, before := range []string{"", one} {
				s.spoil(t, "logs/"+name, before+torn)
				s.spoil(t, name, id(1).String()+"\n")
				want := "->1 test"
				if before == "" {
					want = ""
				}
				if got := s.log(t, name); got != want {
					t.Fatalf("cut at %d: log is %q, want %q", cut, got, want)
				}
				s.set(t, name, id(3))
				want = strings.TrimSuffix("1>3 test; "+want, "; ")
				if got := s.log(t, name); got != want {
					t.Fatalf("cut at %d: after a move, log is %q, want %q", cut, got, want)
				}
			}
		}
	}
}

// A damaged line of a log is reported and can be dropped. The other lines stay readable.
func TestDamagedLog(t *testing.T) {
	s := newStore(t)
	name := Heads + "main"
	for i := range 4 {
		s.set(t, name, id(i))
	}

	lines := strings.SplitAfter(s.mustRead(t, "logs/"+name), "\n")
	for what, bad := range map[string]string{
		"a changed byte":    strings.Replace(lines[1], "test", "tent", 1),
		"an empty line":     "\n",
		"other bytes":       "\x01\xff\n",
		"a line without ID": sealed(strings.Repeat("0", 64) + " 2026-01-31T12:01:00Z <>\tx"),
		"a bad ID":          sealed(strings.Repeat("0", 64) + " " + strings.Repeat("G", 64) + " 2026-01-31T12:01:00Z <>\tx"),
		"a bad time":        sealed(id(1).String() + " " + id(2).String() + " 2026-02-31T12:01:00Z <>\tx"),
		"a zone of +00:00":  sealed(id(1).String() + " " + id(2).String() + " 2026-01-31T12:01:00+00:00 <>\tx"),
		"no address":        sealed(id(1).String() + " " + id(2).String() + " 2026-01-31T12:01:00Z Ann\tx"),
		"no reason":         sealed(id(1).String() + " " + id(2).String() + " 2026-01-31T12:01:00Z <>"),
		"a short line":      "922bf622\n",
		"much too long":     strings.Repeat("y", 3*maxLineSize) + "\n",
	} {
		s.spoil(t, "logs/"+name, lines[0]+bad+lines[2]+lines[3])
		entries, err := s.Log(name)
		var corrupt *object.DamageError
		if !errors.As(err, &corrupt) || corrupt.Name != "logs/refs/heads/main" || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: error %v, want damage in line 2", what, err)
		}
		if len(entries) != 3 || entries[0].New != id(3) || entries[2].New != id(0) {
			t.Errorf("%s: entries %v", what, entries)
		}
		if _, err := s.ExpireLog(ctx, name, func(LogEntry) bool { return false }); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: expire: %v, want damage", what, err)
		}
		if roots, err := s.Roots(ctx); !errors.Is(err, object.ErrCorrupt) || len(roots) < 3 {
			t.Errorf("%s: roots: %v, %v", what, roots, err)
		}

		drop := func(*LogEntry) bool { return false }
		if n, err := s.RepairLog(ctx, name, drop); n != (LogRepair{Dropped: 1}) || err != nil {
			t.Errorf("%s: repair: %v, %v", what, n, err)
		}
		if got, want := s.log(t, name), "2>3 test; 1>2 test; ->0 test"; got != want {
			t.Errorf("%s: after repair, log is %q, want %q", what, got, want)
		}
	}

	// An interrupted append cannot leave a damaged end of the last line.
	s.spoil(t, "logs/"+name, strings.TrimSuffix(lines[0]+lines[1], "\n")+"\x0b")
	if entries, err := s.Log(name); len(entries) != 2 || !errors.Is(err, object.ErrCorrupt) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a damaged end: %v, %v", entries, err)
	}

	drop := func(*LogEntry) bool { return false }
	if n, err := s.RepairLog(ctx, name, drop); n != (LogRepair{Restored: 1}) || err != nil || s.mustRead(t, "logs/"+name) != lines[0]+lines[1] {
		t.Errorf("a damaged end: repair: %v, %v", n, err)
	}

	// An interrupted append cannot leave a long tail of rubbish.
	s.spoil(t, "logs/"+name, lines[0]+strings.Repeat("y", 3*maxLineSize))
	s.set(t, name, id(9))
	if entries, err := s.Log(name); len(entries) != 2 || !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("after rubbish: %v, %v", entries, err)
	}
}

// sealed returns a line with its correct checksum.
func sealed(text string) string {
	return disk.Sum([]byte(text)) + " " + text + "\n"
}

func TestExpireLog(t *testing.T) {
	s := newStore(t)
	name := Heads + "main"
	for i := range 4 {
		s.set(t, name, id(i))
	}
	before := s.mustRead(t, "logs/"+name)
	if n, err := s.ExpireLog(ctx, name, func(LogEntry) bool { return true }); n != 0 || err != nil || s.mustRead(t, "logs/"+name) != before {
		t.Errorf("keep all: removed %d, %v", n, err)
	}
	if n, err := s.ExpireLog(ctx, name, func(e LogEntry) bool { return e.New != id(1) && e.New != id(0) }); n != 2 || err != nil {
		t.Errorf("removed %d entries, %v, want 2", n, err)
	}
	if got, want := s.log(t, name), "2>3 test; 1>2 test"; got != want {
		t.Errorf("log is %q, want %q", got, want)
	}
	if n, err := s.ExpireLog(ctx, "refs/heads/none", func(LogEntry) bool { return true }); n != 0 || err != nil {
		t.Errorf("no log: removed %d, %v", n, err)
	}
	if _, err := s.ExpireLog(ctx, "x/../../y", func(LogEntry) bool { return true }); err == nil {
		t.Error("expired the log of a bad name")
	}
	if got, err := s.Logs(); err != nil || strings.Join(got, " ") != "HEAD refs/heads/main" {
		t.Error(got, err)
	}
	if got := s.log(t, "HEAD"); strings.Count(got, ";") != 3 {
		t.Error(got)
	}
}

func TestRoots(t *testing.T) {
	s := newStore(t)
	s.set(t, Heads+"main", id(1))
	s.set(t, Heads+"main", id(2))
	s.set(t, Tags+"v", id(3))
	s.set(t, "refs/holds/h", id(4))
	s.SetSpecial(ctx, MergeHead, id(5))
	s.SetSpecial(ctx, "ANY_HEAD", id(6))
	s.SetHead(ctx, Head{ID: id(7)}, ann, "x")
	s.spoil(t, "refs/heads/odd name~", id(8).String()+"\n") // a copy that the user made
	s.spoil(t, "logs/refs/heads/gone", string(encodeEntry(LogEntry{Old: id(9), New: id(10)})))
	roots, err := s.Roots(ctx)
	if !errors.Is(err, ErrRefMissing) || !strings.Contains(err.Error(), "refs/heads/gone") {
		t.Fatalf("a log without its branch: %v, want ErrLost", err)
	}

	got := map[string]string{}
	for _, r := range roots {
		got[r.File] += number(r.ID) + " "
	}
	want := map[string]string{
		"refs/heads/main": "2 ", "refs/tags/v": "3 ", "refs/holds/h": "4 ", "MERGE_HEAD": "5 ", "ANY_HEAD": "6 ", "HEAD": "7 ",
		"refs/heads/odd name~": "8 ", "logs/refs/heads/gone": "10 9 ", "logs/refs/heads/main": "2 1 ", "logs/HEAD": "7 2 1 ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	for _, name := range []string{"HEAD", "MERGE_HEAD", "refs/tags/v", "refs/heads/odd name~"} {
		text := s.mustRead(t, name)
		s.spoil(t, name, "rubbish\n")
		if rest, err := s.Roots(ctx); !errors.Is(err, object.ErrCorrupt) || !strings.Contains(err.Error(), name) || len(rest) != len(roots)-1 {
			t.Errorf("%s is damaged: %d roots, %v, want %d and an error that names it", name, len(rest), err, len(roots)-1)
		}
		s.spoil(t, name, text)
	}
}

func TestRename(t *testing.T) {
	s := newStore(t)
	s.set(t, Heads+"main", id(1))
	s.set(t, Heads+"main", id(2))
	s.set(t, Heads+"other", id(3))
	s.set(t, Heads+"d/e", id(4))
	for _, test := range []struct {
		from, to string
		err      error
	}{
		{Heads + "main", Heads + "other", ErrMoved},
		{Heads + "main", Heads + "main", ErrMoved},
		{Heads + "none", Heads + "new", ErrNotFound},
		{Heads + "main", Heads + "other/x", ErrConflict},
		{Heads + "main", Heads + "d", ErrConflict},
		{Heads + "main", Tags + "main", nil},
		{Heads + "main", Heads + "../main", nil},
	} {
		var name *NameError
		if err := s.Rename(ctx, test.from, test.to, ann); err == nil || test.err != nil && !errors.Is(err, test.err) || test.err == nil && !errors.As(err, &name) {
			t.Errorf("rename %s to %s: %v, want %v", test.from, test.to, err, test.err)
		}
	}
	if got := s.all(t); got != "heads/d/e=4 heads/main=2 heads/other=3" {
		t.Fatal(got)
	}

	// A name below the old one, and back.
	deep := newStore(t)
	deep.set(t, Heads+"main", id(1))
	if err := deep.Rename(ctx, Heads+"main", Heads+"main/x", ann); err != nil {
		t.Fatal(err)
	}
	if h, err := deep.Head(); h != (Head{"main/x", id(1)}) || err != nil || deep.all(t) != "heads/main/x=1" {
		t.Error(h, err, deep.all(t))
	}
	deep.set(t, Heads+"main/y", id(2))
	if err := deep.Rename(ctx, Heads+"main/x", Heads+"main", ann); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	if err := deep.Rename(ctx, Heads+"main/y", Heads+"y", ann); err != nil {
		t.Fatal(err)
	}
	if err := deep.Rename(ctx, Heads+"main/x", Heads+"main", ann); err != nil {
		t.Fatal(err)
	}
	if got := deep.all(t); got != "heads/main=1 heads/y=2" {
		t.Error(got)
	}
	if got := deep.log(t, Heads+"main"); !strings.HasSuffix(got, "; ->1 test") {
		t.Errorf("the log is %q", got)
	}

	s.spoil(t, "logs/refs/heads/n", "log of a deleted branch")
	if err := s.Rename(ctx, Heads+"main", Heads+"n/new", ann); err != nil {
		t.Fatal(err)
	}
	if err := s.Rename(ctx, Heads+"other", Heads+"main", ann); err != nil {
		t.Fatal(err)
	}
	if got := s.all(t); got != "heads/d/e=4 heads/main=3 heads/n/new=2" {
		t.Error(got)
	}
	if h, err := s.Head(); h != (Head{"n/new", id(2)}) || err != nil {
		t.Error(h, err)
	}
	renamed := "2>2 branch: renamed refs/heads/main to refs/heads/n/new"
	for name, want := range map[string]string{
		Heads + "n/new": renamed + "; 1>2 test; ->1 test",
		"HEAD":          renamed + "; 1>2 test; ->1 test",
		Heads + "main":  "3>3 branch: renamed refs/heads/other to refs/heads/main; ->3 test",
		Heads + "other": "",
	} {
		if got := s.log(t, name); got != want {
			t.Errorf("log of %s is %q, want %q", name, got, want)
		}
	}
}

func TestSpecials(t *testing.T) {
	s := newStore(t)
	for _, name := range []string{MergeHead, OrigHead, FetchHead, RevertHead, "BISECT_HEAD"} {
		if _, err := s.Special(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.SetSpecial(ctx, name, id(1)); err != nil {
			t.Error(err)
		}
		if err := s.SetSpecial(ctx, name, id(2)); err != nil {
			t.Error(err)
		}
		if got, err := s.Special(name); got != id(2) || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}

	text := "merge\n\nété\n"
	if _, err := s.Message(MergeMsg); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := s.SetMessage(ctx, MergeMsg, text); err != nil {
		t.Error(err)
	}
	if got, err := s.Message(MergeMsg); got != text || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := s.SetMessage(ctx, MergeMsg, strings.Repeat("x", object.MaxMessageSize+1)); err == nil {
		t.Error("accepted a message that is too long")
	}
	if err := s.SetMessage(ctx, MergeMsg, "\xff"); err == nil {
		t.Error("accepted a message that is not UTF-8")
	}

	for range 2 {
		if err := s.ClearSpecial(ctx, MergeHead, MergeMsg); err != nil {
			t.Error(err)
		}
		if _, err := s.Special(MergeHead); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	}

	if _, err := s.Special(OrigHead); err != nil {
		t.Error(err)
	}
	s.spoil(t, OrigHead, "ref: refs/heads/main\n")
	if _, err := s.Special(OrigHead); !errors.Is(err, object.ErrCorrupt) {
		t.Error(err)
	}

	s.spoil(t, MergeMsg, "\xff\xfe")
	if _, err := s.Message(MergeMsg); !errors.Is(err, object.ErrCorrupt) {
		t.Error(err)
	}

	for _, name := range []string{"HEAD", "_HEAD", "config", "index", "../MERGE_HEAD", "refs/heads/MERGE_HEAD", "", "merge_HEAD", "MERGE_MSG"} {
		_, err1 := s.Special(name)
		err2 := s.SetSpecial(ctx, name, id(1))
		err3 := s.ClearSpecial(ctx, OrigHead, name)
		if err1 == nil || err2 == nil || err3 == nil && name != MergeMsg {
			t.Errorf("%q: %v, %v, %v", name, err1, err2, err3)
		}
	}

	if err := s.SetSpecial(ctx, MergeHead, object.ID{}); err == nil {
		t.Error("set a special name to the zero ID")
	}
}

func TestSetHead(t *testing.T) {
	s := Open(t.TempDir(), (&clock{}).now)
	if _, err := s.Head(); !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("no HEAD: %v, want damage", err)
	}
	if err := s.Init("trunk/x"); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Head(); h != (Head{Branch: "trunk/x"}) || !h.Unborn() || err != nil {
		t.Error(h, err)
	}

	s.set(t, Heads+"a", id(1))
	for _, test := range []struct {
		set, want Head
		err       error
	}{
		{Head{Branch: "a"}, Head{"a", id(1)}, nil},
		{Head{Branch: "b"}, Head{Branch: "b"}, nil},
		{Head{"a", id(1)}, Head{"a", id(1)}, nil},
		{Head{"a", id(2)}, Head{"a", id(1)}, ErrMoved},
		{Head{"c", id(2)}, Head{"a", id(1)}, ErrMoved},
		{Head{ID: id(3)}, Head{ID: id(3)}, nil},
	} {
		if err := s.SetHead(ctx, test.set, ann, "set"); !errors.Is(err, test.err) {
			t.Errorf("set to %v: %v, want %v", test.set, err, test.err)
		}
		if h, err := s.Head(); h != test.want || err != nil {
			t.Errorf("after setting to %v: HEAD is %v, %v, want %v", test.set, h, err, test.want)
		}
	}

	for _, bad := range []Head{{}, {Branch: ".."}, {Branch: "a b"}} {
		var name *NameError
		if err := s.SetHead(ctx, bad, ann, "set"); !errors.As(err, &name) {
			t.Errorf("set to %v: %v, want a NameError", bad, err)
		}
	}

	want := "1>3 set; ->1 set; 1>- set; ->1 set"
	if got := s.log(t, "HEAD"); got != want {
		t.Errorf("log is %q, want %q", got, want)
	}

	for _, text := range []string{"", "x", "ref: refs/tags/v\n", "ref: refs/heads/../x\n", "ref: \n", strings.Repeat("\x00", 10)} {
		s.spoil(t, "HEAD", text)
		var corrupt *object.DamageError
		if h, err := s.Head(); !errors.As(err, &corrupt) || corrupt.Name != "HEAD" {
			t.Errorf("HEAD %q: read as %v, %v, want damage", text, h, err)
		}
		if err := s.Update(ctx, []Change{{Name: "HEAD", New: id(1)}}, ann); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("HEAD %q: update: %v", text, err)
		}
	}

	if err := s.SetHead(ctx, Head{Branch: "a"}, ann, "repair"); err != nil {
		t.Errorf("replace a damaged HEAD: %v", err)
	}
	os.Remove(s.filePath("HEAD"))
	if err := s.Update(ctx, []Change{{Name: "HEAD", New: id(1)}}, ann); !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("no HEAD: update: %v", err)
	}
}

func FuzzReflog(f *testing.F) {
	line := string(encodeEntry(LogEntry{Old: id(1), New: id(2), Who: ann, Reason: "commit: x"}))
	f.Add([]byte(line))
	f.Add([]byte(line + line[:50]))
	f.Add([]byte(line + strings.Repeat("\x00", 20) + "x\n"))
	f.Add([]byte("x\n" + line))
	f.Add([]byte(sealed(strings.Repeat("0", 64) + " " + id(1).String() + " 2026-01-31T12:01:00.5-07:30 a b <c>\t\td ")))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := decodeLog(data)
		// Encoding the entries gives the same bytes exactly if decodeLog returned no error.
		var again []byte
		for i := len(entries) - 1; i >= 0; i-- {
			again = append(again, encodeEntry(entries[i])...)
		}
		complete := data[:intactLines(data)]
		if err == nil && string(again) != string(complete) {
			t.Errorf("%q became %q", complete, again)
		}
		if err != nil && string(again) == string(complete) {
			t.Errorf("error %v, but all of %q was decoded", err, complete)
		}

		for _, text := range []string{NewWho(string(data), "").Name, object.OneLine(string(data), 20)} {
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\n\t\x00") {
				t.Errorf("one line of %q is %q", data, text)
			}
		}

		e := LogEntry{Who: NewWho(string(data), "a"), Reason: object.OneLine(string(data), 1024)}
		text := encodeEntry(e)
		if back, err := decodeEntry(text[:len(text)-1]); err != nil || back.Who != e.Who || back.Reason != e.Reason || len(text) > maxLineSize {
			t.Errorf("%q became %v, %v", text, back, err)
		}
	})
}

// Dropping a stash links the entries around it, as if it had never existed.
func TestDropEntry(t *testing.T) {
	s := newStore(t)
	for i := range 4 {
		s.set(t, Stash, id(i))
	}

	for _, drop := range []struct {
		i, id int
		log   string
		ref   int
	}{
		{1, 2, "1>3 test; 0>1 test; ->0 test", 3},
		{0, 3, "0>1 test; ->0 test", 1},
	} {
		if err := s.DropEntry(ctx, Stash, drop.i, id(9)); !errors.Is(err, ErrMoved) {
			t.Errorf("drop with the wrong commit: %v, want ErrMoved", err)
		}
		if err := s.DropEntry(ctx, Stash, drop.i, id(drop.id)); err != nil {
			t.Fatal(err)
		}
		if got := s.log(t, Stash); got != drop.log {
			t.Errorf("log is %q, want %q", got, drop.log)
		}

		now, err := s.Get(Stash)
		if err != nil || now != id(drop.ref) {
			t.Errorf("the ref is %s, %v, want %s", now.Short(), err, id(drop.ref).Short())
		}
	}

	roots, err := s.Roots(ctx)
	if err != nil {
		t.Error(err)
	}

	for _, r := range roots {
		if r.ID == id(2) || r.ID == id(3) {
			t.Errorf("%s still names a dropped commit", r.File)
		}
	}

	if err := s.DropEntry(ctx, Stash, 1, id(0)); err != nil {
		t.Fatal(err)
	}
	if err := s.DropEntry(ctx, Stash, 0, id(1)); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Get(Stash); !errors.Is(err, ErrNotFound) {
		t.Errorf("the ref after the last drop: %v, want ErrNotFound", err)
	}
	if got := s.log(t, Stash); got != "" {
		t.Errorf("the log after the last drop is %q", got)
	}
	if err := s.DropEntry(ctx, Stash, 0, id(1)); !errors.Is(err, ErrMoved) {
		t.Errorf("drop from an empty log: %v, want ErrMoved", err)
	}
	if CheckName(Stash) == nil {
		t.Error("CheckName accepts the name of the stash")
	}
}
