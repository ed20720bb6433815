package refs

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// compared returns a store with refs of all kinds that have logs.
func compared(t *testing.T) *Store {
	s := newStore(t)
	for i := range 4 {
		s.set(t, Heads+"main", id(i))
		s.set(t, Stash, id(10+i))
	}
	s.set(t, Heads+"new", id(1))
	s.set(t, "refs/remotes/origin/main", id(2))
	if err := s.SetRemoteHead(ctx, "refs/remotes/origin/HEAD", "refs/remotes/origin/main"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Roots(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// Roots names each ref that is gone while its log is here, and each log that is gone, cut
// after a line, emptied, or overwritten with zeros.
func TestRootsNamesLosses(t *testing.T) {
	s := compared(t)
	for _, name := range []string{Heads + "main", Heads + "new", Stash, "refs/remotes/origin/main"} {
		text := s.mustRead(t, name)
		if err := os.Remove(s.filePath(name)); err != nil {
			t.Fatal(err)
		}
		var damage *object.DamageError
		if _, err := s.Roots(ctx); !errors.Is(err, ErrRefMissing) || !errors.As(err, &damage) || damage.Name != name {
			t.Errorf("%s is gone: %v, want ErrLost", name, err)
		}
		s.spoil(t, name, text)
	}

	for _, name := range []string{"HEAD", Heads + "main", Stash} {
		log := "logs/" + name
		text := s.mustRead(t, log)
		lines := strings.SplitAfter(text, "\n")
		for what, bad := range map[string]string{
			"one line shorter": strings.Join(lines[:3], ""), "one line long": lines[0], "empty": "",
			"all zero": strings.Repeat("\x00", len(text)), "zero at the end": strings.Join(lines[:3], "") + strings.Repeat("\x00", len(lines[3])),
			"cut within a line": text[:len(text)-9],
		} {
			s.spoil(t, log, bad)
			var damage *object.DamageError
			if _, err := s.Roots(ctx); !errors.Is(err, ErrCut) || !errors.As(err, &damage) || damage.Name != log {
				t.Errorf("%s is %s: %v, want ErrCut", log, what, err)
			}
		}
		if err := os.Remove(s.filePath(log)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Roots(ctx); !errors.Is(err, ErrCut) {
			t.Errorf("%s is gone: %v, want ErrCut", log, err)
		}
		s.spoil(t, log, text)
	}
	if _, err := s.Roots(ctx); err != nil {
		t.Fatal(err)
	}
}

// Roots names a line that is missing anywhere in the log of the stash, and a repair builds it again.
func TestRootsNamesStashGap(t *testing.T) {
	s := compared(t)
	log := "logs/" + Stash
	text, list := s.mustRead(t, log), s.log(t, Stash)
	lines := slices.Collect(strings.Lines(text))
	for i := range lines {
		s.spoil(t, log, strings.Join(slices.Delete(slices.Clone(lines), i, i+1), ""))
		var damage *object.DamageError
		if _, err := s.Roots(ctx); !errors.Is(err, ErrCut) || !errors.As(err, &damage) || damage.Name != log {
			t.Errorf("line %d is gone: %v, want ErrCut", i+1, err)
		}
		done, err := s.RepairLog(ctx, Stash, func(e *LogEntry) bool { e.Who, e.Reason = ann, "test"; return true })
		if err != nil || !done.Loses() || s.log(t, Stash) != list {
			t.Errorf("line %d: repaired %+v, %v: %s, want %s", i+1, done, err, s.log(t, Stash), list)
		}
	}

	// If nothing is known of the lost lines, the others join.
	s.spoil(t, log, lines[1]+lines[3])
	none := func(*LogEntry) bool { return false }
	if done, err := s.RepairLog(ctx, Stash, none); err != nil || done.Dropped != 2 {
		t.Errorf("two lines are gone: repaired %+v, %v", done, err)
	}
	if _, err := s.Roots(ctx); err != nil {
		t.Errorf("after the repair: %v", err)
	}
}

// The log of the stash has no gap after a kill, further stashes and drops of any of them.
func TestStashGapAfterKill(t *testing.T) {
	for drop := range 4 {
		s := newStore(t)
		s.set(t, Stash, id(0))
		s.spoil(t, "logs/"+Stash, s.mustRead(t, "logs/"+Stash)+string(encodeEntry(LogEntry{Old: id(0), New: id(1)}))) // its writer was killed
		s.set(t, Stash, id(2))
		s.set(t, Stash, id(3))
		for range 2 {
			entries, err := s.Log(Stash)
			if err != nil {
				t.Fatal(err)
			}
			i := min(drop, len(entries)-1)
			if err := s.DropEntry(ctx, Stash, i, entries[i].New); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Roots(ctx); err != nil {
				t.Errorf("without stash %d: %v: %s", drop, err, s.log(t, Stash))
			}
		}
	}
}

// The states that a kill leaves are no losses, and the next writer ends them. A ref that a
// person wrote need not match its log.
func TestRootsAfterKill(t *testing.T) {
	s := compared(t)
	made, gone, ahead := Heads+"made", Heads+"new", Heads+"main"
	line := func(old, new int) string { return string(encodeEntry(LogEntry{Old: id(old), New: id(new)})) }
	s.spoil(t, begunFile, made+"\n"+gone+"\nrefs/../config\n")
	s.spoil(t, "logs/"+made, string(encodeEntry(LogEntry{New: id(4)})))
	os.Remove(s.filePath(gone))
	s.spoil(t, "logs/"+ahead, s.mustRead(t, "logs/"+ahead)+line(3, 5))
	s.spoil(t, "logs/HEAD", s.mustRead(t, "logs/HEAD")+line(3, 5))
	if _, err := s.Roots(ctx); err != nil {
		t.Errorf("after a kill: %v", err)
	}

	s.set(t, Heads+"other", id(1))
	if _, err := s.Roots(ctx); err != nil {
		t.Errorf("after the next update: %v", err)
	}
	for _, name := range []string{made, gone} {
		if _, err := os.Stat(s.filePath("logs/" + name)); !os.IsNotExist(err) {
			t.Errorf("the log of %s is still there: %v", name, err)
		}
	}

	s.spoil(t, ahead, id(9).String()+"\n")
	if _, err := s.Roots(ctx); err != nil {
		t.Errorf("a branch that a person wrote: %v", err)
	}
}

// RepairLog restores a log in which any bit is flipped.
func TestRepairLogBit(t *testing.T) {
	s := newStore(t)
	for i := range 3 {
		s.set(t, Stash, id(i))
	}
	name := "logs/" + Stash
	text := s.mustRead(t, name)
	step := 1
	if testing.Short() {
		step = 13
	}
	none := func(e *LogEntry) bool { t.Errorf("rebuilds %v", *e); return false }
	for bit := 0; bit < 8*len(text); bit += step {
		data := []byte(text)
		data[bit/8] ^= 1 << (bit % 8)
		s.spoil(t, name, string(data))
		done, err := s.RepairLog(ctx, Stash, none)
		if got := s.mustRead(t, name); err != nil || done.Loses() || done.Restored == 0 || got != text {
			t.Fatalf("bit %d: %+v, %v, log:\n%s", bit, done, err, got)
		}
	}
}

// RepairLog rebuilds the commits of a damaged line from its neighbours and the ref, and
// counts the lines that it cannot know.
func TestRepairLogRebuilds(t *testing.T) {
	s := newStore(t)
	for i := range 4 {
		s.set(t, Stash, id(i))
	}

	name := "logs/" + Stash
	text := s.mustRead(t, name)
	lines := strings.SplitAfter(text, "\n")
	bad := strings.Repeat("x", 50) + "\n"
	for _, c := range []struct {
		what, log string
		want      LogRepair
		after     string
	}{
		{"the newest is damaged", lines[0] + lines[1] + lines[2] + bad, LogRepair{Rebuilt: 1}, "2>3 found; 1>2 test; 0>1 test; ->0 test"},
		{"the oldest is damaged", bad + lines[1] + lines[2] + lines[3], LogRepair{Rebuilt: 1}, "2>3 test; 1>2 test; 0>1 test; ->0 found"},
		{"two are damaged", lines[0] + bad + bad + lines[3], LogRepair{Rebuilt: 1, Dropped: 1}, "2>3 test; 0>2 found; ->0 test"},
		{"the newest is cut", lines[0] + lines[1] + lines[2], LogRepair{Cut: true}, "2>3 found; 1>2 test; 0>1 test; ->0 test"},
		{"empty", "", LogRepair{Cut: true}, "->3 found"},
		{"intact", text, LogRepair{}, "2>3 test; 1>2 test; 0>1 test; ->0 test"},
	} {
		s.spoil(t, name, c.log)
		done, err := s.RepairLog(ctx, Stash, func(e *LogEntry) bool { e.Reason = "found"; return true })
		if got := s.log(t, Stash); err != nil || done != c.want || got != c.after {
			t.Errorf("%s: %+v, %v, log %q, want %+v, %q", c.what, done, err, got, c.want, c.after)
		}
		if _, err := s.Roots(ctx); err != nil {
			t.Errorf("%s: after the repair: %v", c.what, err)
		}
	}
}

// A repaired stash gets no second line: each line is a stash.
func TestRepairStash(t *testing.T) {
	s := newStore(t)
	for i := range 2 {
		s.set(t, Stash, id(i))
	}
	before := s.log(t, Stash)
	for _, spoil := range []func(){func() { s.spoil(t, Stash, "rubbish\n") }, func() { os.Remove(s.filePath(Stash)) }} {
		spoil()
		if err := s.Repair(ctx, Stash, id(1), ann, "repair"); err != nil {
			t.Fatal(err)
		}
		if got := s.log(t, Stash); got != before {
			t.Errorf("log is %q, was %q", got, before)
		}
		if got, err := s.Get(Stash); got != id(1) || err != nil {
			t.Errorf("the stash is %v, %v", got, err)
		}
	}
}

// The newest line of a log does not expire. Otherwise nothing would prove that the log
// was not lost.
func TestExpireLogKeepsEnd(t *testing.T) {
	s := newStore(t)
	name := Heads + "main"
	for i := range 3 {
		s.set(t, name, id(i))
	}
	for _, want := range []int{2, 0} {
		if n, err := s.ExpireLog(ctx, name, func(LogEntry) bool { return false }); n != want || err != nil {
			t.Errorf("removed %d, %v, want %d", n, err, want)
		}
		if got := s.log(t, name); got != "->2 test" {
			t.Errorf("log is %q", got)
		}
	}
	if _, err := s.Roots(ctx); err != nil {
		t.Error(err)
	}
}
