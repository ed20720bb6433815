package dir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
)

// TestFull runs fill on a small disk of its own.
func TestFull(t *testing.T) { onDisk(t, "fill") }

// onDisk runs a child process on a small disk of its own, in mounts of its own.
func onDisk(t *testing.T, child string) {
	t.Helper()
	if os.Getuid() != 0 {
		objecttest.Skip(t, "only root can mount a disk")
	}
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		objecttest.Skip(t, "cannot unshare: "+err.Error())
	}

	dir := t.TempDir()
	c := process(t, child, dir, "")
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs -o size=4m,nr_inodes=200 none "$0" && exec "$@"`, dir)
	cmd.Args = append(cmd.Args, c.Args...)
	cmd.Env = c.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// fill stores blobs until the disk has no free bytes, and then until it has no free
// inodes. Stored blobs stay intact, no temporary file is left, and a deletion makes
// room for another blob.
func fill(b *Backend, _ string) error {
	for _, size := range []int64{300_000, 10} {
		name := func(i int) string { return fmt.Sprintf("packs/%d-%d", size, i) }
		data := bytes.Repeat([]byte("x"), int(size))
		n := 0
		var err error

		for ; err == nil && n < 1000; n++ {
			err = b.Put(bg, name(n), bytes.NewReader(data), size)
		}
		n--
		if !errors.Is(err, remote.ErrFull) || n < 5 {
			return fmt.Errorf("after %d blobs of %d bytes: %v", n, size, err)
		}
		if err := b.Create(bg, "root/1", data); !errors.Is(err, remote.ErrFull) {
			return fmt.Errorf("create on a full disk: %v", err)
		}
		if left, _ := os.ReadDir(b.root + "/" + temps); len(left) > 0 {
			return fmt.Errorf("temporary files left: %v", left)
		}
		if listed, err := names(b, "packs/"); err != nil || len(listed) != n {
			return fmt.Errorf("%d of %d blobs listed: %v", len(listed), n, err)
		}

		for i := range n {
			if info, err := b.Stat(bg, name(i)); err != nil || info.Size != size {
				return fmt.Errorf("stat of blob %d: %+v, %v", i, info, err)
			}
		}

		if err := b.Delete(bg, name(0)); err != nil {
			return err
		}
		if err := b.Put(bg, name(n), bytes.NewReader(data), size); err != nil {
			return fmt.Errorf("put after a deletion: %w", err)
		}

		for i := range n + 1 {
			if err := b.Delete(bg, name(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
