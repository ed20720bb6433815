package dir

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { children["unmount"] = unmount }

// TestUnmount runs unmount on a disk of its own.
func TestUnmount(t *testing.T) { onDisk(t, "unmount") }

// unmount unmounts the disk of a remote, as 'umount -l' does, and mounts another one. All
// calls fail, and neither the mount point nor the other disk gets a file.
func unmount(b *Backend, _ string) error {
	for _, name := range []string{"kist.json", "root/1", "packs/a"} {
		if err := put(b, name, "text"); err != nil {
			return err
		}
	}

	for _, step := range []func() error{
		func() error { return unix.Unmount(b.root, unix.MNT_DETACH) },
		func() error { return unix.Mount("none", b.root, "tmpfs", 0, "size=4m") },
	} {
		if err := step(); err != nil {
			return err
		}
		for name, do := range calls {
			err := do(b)
			if !isAway(err) {
				return fmt.Errorf("%s: error %w, want an AwayError", name, err)
			}
		}
		if left, err := os.ReadDir(b.root); err != nil || len(left) > 0 {
			return fmt.Errorf("the folder has %v, %w", left, err)
		}
	}

	return nil
}
