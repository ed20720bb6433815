package main

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote/rootlog"
)

// reseal returns a changed root with the right checksum.
func reseal(root []byte) []byte {
	body := root[:len(root)-sha256.Size]
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

// TestRemoteHostile checks that commands handle forged remotes in little memory,
// and write nothing outside of the repository.
func TestRemoteHostile(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	const branch = "refs/heads/ordinary-name"
	source := d.away.in("source")
	source.succeeds("push", "origin", "main:ordinary-name")
	head := rootlog.RootName(4)
	root, err := os.ReadFile(filepath.Join(d.store, head))
	if err != nil || !bytes.Contains(root, []byte(branch)) {
		t.Fatalf("%s does not have %s: %v", head, branch, err)
	}
	d.blobs[head] = string(root)
	named := func(name string) []byte {
		name += strings.Repeat("x", len(branch)-len(name))
		return reseal(bytes.ReplaceAll(root, []byte(branch), []byte(name)))
	}
	index := d.names("index")[0]
	oldIndex := []byte(d.blobs[index])
	counts := bytes.Clone(oldIndex)
	copy(counts[len(counts)-16:], "\xff\xff\xff\xf0")
	oldSum, newSum := sha256.Sum256(oldIndex), sha256.Sum256(counts)
	keys := bytes.Clone(oldIndex)
	for i := 32 + 40; i < len(keys)-16; i++ {
		keys[i] = 0xff
	}
	keysSum := sha256.Sum256(keys)
	future := bytes.Clone(root)
	future[9]++

	for _, c := range []struct {
		name   string
		change map[string][]byte
		status []int
	}{
		{"a name with ..", map[string][]byte{head: named("refs/heads/../../../esc")}, []int{0}},
		{"a name that is a path", map[string][]byte{head: named("/tmp/kist-escaped")}, []int{1, 11}},
		{"a name of a folder", map[string][]byte{head: named("refs/heads/.kist/")}, []int{0}},
		{"a name with a control character", map[string][]byte{head: named("refs/heads/\x1b[2J\x07")}, []int{1, 11}},
		{"a name with a line break", map[string][]byte{head: named("refs/heads/a\nb")}, []int{1, 11}},
		{"a name that is not UTF-8", map[string][]byte{head: named("refs/heads/\xff\xfe")}, []int{1, 11}},
		{"a root of a newer format", map[string][]byte{head: reseal(future)}, []int{12}},
		{"a root that is too large", map[string][]byte{head: make([]byte, 64<<20)}, []int{11}},
		{"a root with a wrong checksum", map[string][]byte{head: append(bytes.Clone(root), 0)}, []int{11}},
		{"a kist.json that is too large", map[string][]byte{"kist.json": bytes.Repeat([]byte("["), 64<<20)}, []int{11}},
		{"an index file of 4 billion packs", map[string][]byte{index: counts, head: reseal(bytes.ReplaceAll(root, oldSum[:], newSum[:]))}, []int{11}},
		{"an index file with invalid keys", map[string][]byte{index: keys, head: reseal(bytes.ReplaceAll(root, oldSum[:], keysSum[:]))}, []int{11}},
	} {
		for name, data := range c.change {
			if string(data) == d.blobs[name] {
				t.Fatalf("%s: %s did not change", c.name, name)
			}
			d.set(name, data)
		}
		outside := d.away.readFiles("..")
		for _, args := range [][]string{{"clone", "--json", d.store, "clone"}, {"fetch", "--json"}, {"ls-remote", "--json"}, {"verify", "--json", "--remote", "origin", "--read-data"}} {
			s := *d.away
			if args[0] != "clone" {
				s = *d.seen
			}
			s.program = "kist-in-little-memory"
			o := s.run(args...)
			want := c.status
			switch {
			case args[0] == "verify" && want[0] == 0: // other commands skip bad names
				want = []int{11}
			case args[0] == "ls-remote" && c.change[index] != nil:
				want = append(slices.Clone(want), 0)
			}
			if !slices.Contains(want, o.status) {
				t.Errorf("%s: want exit status %v: %v", c.name, want, o)
			}
			if o.status != 0 && o.status != 11 && strings.TrimSpace(o.stderr) == "" {
				t.Errorf("%s: no error message: %v", c.name, o)
			}
			if strings.ContainsAny(o.stdout+o.stderr, "\x1b\x07") {
				t.Errorf("%s: prints control characters: %q", c.name, o.stdout+o.stderr)
			}
		}
		if _, err := os.Stat(d.away.path("clone/.kist/config")); err == nil {
			d.away.in("clone").verify()
		}
		removeAll(t, d.away.path("clone"))
		d.seen.verify()
		now := d.away.readFiles("..")
		for _, line := range now.diff(outside) {
			if !strings.Contains(line, "folder/seen/.kist/") {
				t.Errorf("%s: a file outside of the repository changed: %s", c.name, line)
			}
		}
		for name := range c.change {
			d.set(name, []byte(d.blobs[name]))
		}
		removeAll(t, d.seen.path(".kist/remotes/origin")) // else the true root counts as a rollback
	}
}
