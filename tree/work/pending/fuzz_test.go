package pending

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// FuzzJournal reads journals. Changes that were read are equal after encoding and decoding.
func FuzzJournal(f *testing.F) {
	base := object.Sum([]byte("base"))
	ops := []op{
		{kind: opSet, path: "a/b", entry: object.Entry{Name: "b", Type: object.TypeFile, Mode: 0o644, Size: 2, Inline: []byte("hi")}, who: alice},
		{kind: opRemove, path: "c", who: bob},
	}
	payload, err := encodeOps(ops)
	if err != nil {
		f.Fatal(err)
	}

	header := slices.Concat([]byte(journalMagic), frame(slices.Concat(base[:], []byte("team"))))
	whole := slices.Concat(header, frame(payload), frame(nil))
	f.Add(whole)
	f.Add(whole[:len(whole)-30])
	f.Add(header)
	f.Add(header[:20])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}

		_, branch, ops, _, found, err := readJournal(path)
		if err != nil || !found {
			if len(ops) > 0 || found {
				t.Errorf("an invalid journal has changes %v, error %v", ops, err)
			}
			return
		}
		if name, err := journalBranch(path); err != nil || name != branch {
			t.Errorf("branch %q, %v, want %q", name, err, branch)
		}

		again, err := encodeOps(ops)
		if err != nil {
			return // too long for one record
		}
		if got, err := decodeOps(again); err != nil || !reflect.DeepEqual(got, ops) {
			t.Errorf("%v is decoded as %v, error %v", ops, got, err)
		}
	})
}
