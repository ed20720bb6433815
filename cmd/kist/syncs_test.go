package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// syncCalls are the system calls that write data to disk before they return.
var syncCalls = []string{"fsync", "fdatasync", "msync", "syncfs", "sync"}

// trace runs kist under strace and returns a line for each of the named calls, in
// the order in which the calls end.
func (s *shell) trace(calls []string, args ...string) []string {
	s.Helper()
	path := objecttest.NeedProgram(s, "strace")
	log := s.path("../trace")
	ctx, cancel := context.WithTimeout(s.Context(), commandTime)
	defer cancel()
	cmd := s.command(ctx, args...)

	program := filepath.Join(s.TempDir(), "kist") // TestMain runs kist under this name
	if err := os.Symlink(cmd.Path, program); err != nil {
		s.Fatal(err)
	}

	cmd.Args = append([]string{path, "-f", "-y", "-qq", "-o", log, "-e", "trace=" + strings.Join(calls, ","), program}, args...)
	cmd.Path = path
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("kist %q: %v\n%s", args, err, out)
	}

	data, err := os.ReadFile(log)
	if err != nil {
		s.Fatal(err)
	}

	begun := map[string]string{} // by thread
	var lines []string
	for line := range strings.Lines(string(data)) {
		thread, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		call = strings.TrimSpace(call)
		if start, ok := strings.CutSuffix(call, " <unfinished ...>"); ok {
			begun[thread] = start
			continue
		}
		if _, end, ok := strings.Cut(call, " resumed>"); ok {
			call = begun[thread] + end
		}
		if name, _, ok := strings.Cut(call, "("); ok && slices.Contains(calls, name) { // other lines are signals
			lines = append(lines, call)
		}
	}
	return lines
}

// A small commit must not sync more than its guarantees need: see the table in
// docs/format/volume.md.
func TestSyncsOfSmallCommit(t *testing.T) {
	s := newShell(t)
	s.kist("init")
	for round, text := range []string{"hello\n", "hello again\n"} {
		s.write(map[string]string{"file": text})
		n := 0
		for _, args := range [][]string{{"add", "file"}, {"commit", "-m", text}} {
			n += len(s.trace(syncCalls, args...))
		}
		if n > 12 {
			t.Errorf("round %d: %d sync calls, want at most 12", round, n)
		}
	}
	s.verify()
}

// A small backup seals one volume, writes the index once, and moves one branch.
func TestSyncsOfSmallBackup(t *testing.T) {
	s := newShell(t)
	s.kist("init")
	for round, text := range []string{"hello\n", "hello again\n"} {
		s.write(map[string]string{"file": text})
		if n := len(s.trace(syncCalls, "backup")); n > 12 {
			t.Errorf("round %d: %d sync calls, want at most 12", round, n)
		}
	}
	s.verify()
}

// Init syncs the folder of each name after it makes the name, so that a crash cannot
// undo it.
func TestInitSyncsNames(t *testing.T) {
	s := newShell(t)
	quoted := regexp.MustCompile(`"([^"]*)"`)
	folder := regexp.MustCompile(`^(?:AT_FDCWD|\d+)<([^>]*)>`)
	opened := regexp.MustCompile(`<([^>]*)>\) += 0$`)
	var unsynced []string // folders with new names
	made := 0

	for _, call := range s.trace(append(syncCalls, "mkdirat", "mkdir", "openat", "renameat", "renameat2", "rename"), "init", "a/b") {
		name, args, _ := strings.Cut(call, "(")
		if !strings.HasSuffix(call, " = 0") && name != "openat" {
			continue
		}
		if slices.Contains(syncCalls, name) {
			if dir := opened.FindStringSubmatch(call); dir != nil {
				unsynced = slices.DeleteFunc(unsynced, func(d string) bool { return d == dir[1] })
			}
			continue
		}
		paths := quoted.FindAllStringSubmatch(args, -1)
		if len(paths) == 0 || name == "openat" && !strings.Contains(args, "O_CREAT") {
			continue
		}
		path := paths[len(paths)-1][1]
		if dir := folder.FindStringSubmatch(args); dir != nil && !filepath.IsAbs(path) {
			path = filepath.Join(dir[1], path)
		}
		base := filepath.Base(path)
		if !strings.HasPrefix(path, s.dir) || strings.Contains(path, "refs.tmp") || strings.HasSuffix(base, ".lock") || strings.HasSuffix(base, ".tmp") {
			continue // not needed after a crash
		}
		made++
		unsynced = append(unsynced, filepath.Dir(path))
	}
	if len(unsynced) > 0 || made < 12 {
		t.Errorf("init made %d names, want at least 12; folders not synced: %q", made, unsynced)
	}
	s.in("a/b").verify()
}
