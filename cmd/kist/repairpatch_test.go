package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
)

// TestRepairBase damages the base of the patches that store a file's other versions.
// Repair restores it from the worktree, the only other source.
func TestRepairBase(t *testing.T) {
	s := newShell(t)
	s.succeeds("init", "-q")
	var text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&text, "%d times %d\n", i, i*i*7919)
	}

	versions := map[string]string{} // by commit
	for i := range 6 {
		data := fmt.Sprintf("version %d\n%s", i, text.String())
		s.write(map[string]string{"file": data})
		s.succeeds("add", "-q", "file")
		versions[idOf(s, s.succeeds("commit", "--json", "-m", fmt.Sprint(i)))] = data
	}

	s.succeeds("gc", "-q", "--repack")
	damaged := false
	for commit := range versions {
		var entry struct{ ID string }
		if err := json.Unmarshal([]byte(s.succeeds("ls", "--json", commit)), &entry); err != nil {
			t.Fatal(err)
		}
		s.succeeds("checkout", "-q", commit)
		if damaged = s.damageValue(entry.ID); damaged {
			break
		}
	}
	if !damaged {
		t.Fatal("all versions are stored as patches")
	}
	if n := len(s.check(11, "--read-data").Errors); n != len(versions) {
		t.Fatalf("verify finds %d errors, want one for each of %d versions", n, len(versions))
	}

	s.succeeds("verify", "--repair")
	s.succeeds("verify", "--read-data")
	for commit, want := range versions {
		if got := s.succeeds("cat", commit+":file"); got != want {
			t.Errorf("after the repair, the file of commit %s is wrong", commit)
		}
	}
}

// damageValue changes a byte of the stored value of a chunk. If the value is a patch,
// it changes nothing and returns false.
func (s *shell) damageValue(id string) bool {
	s.Helper()
	raw, err := hex.DecodeString(id)
	if err != nil {
		s.Fatal(err)
	}
	logs, err := filepath.Glob(s.path(".kist/volumes/*/*.vlog"))
	if err != nil {
		s.Fatal(err)
	}

	key := append([]byte{byte(object.KindChunk)}, raw...)
	key = append(key, 0xff) // where Badger's transaction number begins
	for _, path := range logs {
		data, err := os.ReadFile(path)
		if err != nil {
			s.Fatal(err)
		}
		i := bytes.Index(data, key)
		if i < 0 {
			continue
		}
		value := i + len(key) + 7
		if _, patched := frame.Base(data[value:]); patched {
			return false
		}
		data[value+64] ^= 1
		os.Remove(path) // it is read-only

		if err := os.WriteFile(path, data, 0o444); err != nil {
			s.Fatal(err)
		}
		return true
	}

	s.Fatalf("no value log has chunk %s", id)
	return false
}
