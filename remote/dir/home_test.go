package dir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
)

// calls are the operations of a backend.
var calls = map[string]func(b *Backend) error{
	"get":          func(b *Backend) error { _, err := b.Get(bg, "packs/a", make([]byte, 4), 0); return err },
	"stat":         func(b *Backend) error { _, err := b.Stat(bg, "packs/a"); return err },
	"list":         func(b *Backend) error { _, err := names(b, "packs/"); return err },
	"list all":     func(b *Backend) error { _, err := names(b, ""); return err },
	"put":          func(b *Backend) error { return put(b, "packs/new", "text") },
	"create":       func(b *Backend) error { return put(b, "root/2", "text") },
	"replace":      func(b *Backend) error { return b.Replace(bg, "root/1", []byte("text")) },
	"delete":       func(b *Backend) error { return b.Delete(bg, "packs/a") },
	"remove temps": func(b *Backend) error { _, err := b.RemoveTemps(bg, time.Now()); return err },
}

// If another folder takes the place of the remote, each call fails, and changes nothing
// there. When the remote is back, each call succeeds.
func TestAway(t *testing.T) {
	for place, make := range map[string]func(path string) error{
		"nothing":         func(string) error { return nil },
		"a file":          func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"an empty folder": func(path string) error { return os.Mkdir(path, 0o777) },
		"another remote":  fillRemote,
	} {
		for name, do := range calls {
			base := t.TempDir()
			root := filepath.Join(base, "kist")
			if err := fillRemote(root); err != nil {
				t.Fatal(err)
			}
			b := openDir(t, root)

			if err := errors.Join(os.Rename(root, root+".away"), make(root)); err != nil {
				t.Fatal(err)
			}
			before := tree(t, root)
			err := do(b)
			wantKind(t, name+", "+place, err, remote.ErrNoStore, root, "unmounted")
			if !isAway(err) {
				t.Errorf("%s, %s: error %v, want an AwayError", name, place, err)
			}
			if after := tree(t, root); after != before {
				t.Errorf("%s, %s: the folder has %s, want %s", name, place, after, before)
			}

			if err := errors.Join(os.RemoveAll(root), os.Rename(root+".away", root)); err != nil {
				t.Fatal(err)
			}
			if err := do(b); err != nil {
				t.Errorf("%s, after the folder is back: %v", name, err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A write that is under way while the folder goes away is not acknowledged. The error is
// temporary, because the file may have been stored.
func TestAwayDuringWrite(t *testing.T) {
	for name, do := range map[string]func(b *Backend) error{"put": calls["put"], "create": calls["create"]} {
		root := filepath.Join(t.TempDir(), "kist")
		if err := fillRemote(root); err != nil {
			t.Fatal(err)
		}
		b := openDir(t, root)
		b.link = func(from *os.File, name string, to *os.File, newName string) error {
			return errors.Join(linkat(from, name, to, newName), os.Rename(root, root+".away"), os.Mkdir(root, 0o777))
		}

		wantKind(t, name, do(b), remote.ErrTemporary, root, "unmounted")
		wantKind(t, name+" again", do(b), remote.ErrNoStore, root, "unmounted")
		if got := tree(t, root); got != "." {
			t.Errorf("%s: the other folder has %s", name, got)
		}
	}
}

// fillRemote makes the folder of a remote.
func fillRemote(root string) error {
	b, err := open(bg, root, "")
	if err != nil {
		return err
	}
	return errors.Join(put(b, "kist.json", "{}"), put(b, "root/1", "text"), put(b, "packs/a", "text"), b.Close())
}

// tree lists everything at a path.
func tree(t *testing.T, path string) (list string) {
	t.Helper()
	err := filepath.WalkDir(path, func(at string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(path, at)
		list += fmt.Sprint(" ", rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list[min(1, len(list)):]
}
