package gc

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"syscall"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/disk"
)

// The reserve is a file that takes space on the disk of the repository. Commands that free space
// write a little first: records, logs, a new volume. On a full disk, they remove the reserve.
const (
	reserveFile   = "reserve"
	reserveSize   = 4 << 20
	minRepository = 16 * reserveSize // smaller ones have no reserve
	minFree       = 4 * reserveSize  // with less free space, none is made
)

// IsFull reports whether an error means that the disk is full, or a quota of it.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// KeepReserve makes the reserve of a repository, if there is none, the repository is large, and
// the disk has enough free space. Errors do not matter: a later command tries again.
func KeepReserve(ctx context.Context, r *kist.Repository) {
	path := filepath.Join(r.Dir(), reserveFile)
	if info, err := disk.Lstat(path); err == nil && info.Size() == reserveSize {
		return
	}
	if size, err := r.Objects().Size(ctx); err != nil || size < minRepository {
		return
	}
	if free, err := disk.FreeSpace(r.Dir()); err != nil || free < minFree {
		return
	}

	data := make([]byte, reserveSize)
	rand.NewChaCha8([32]byte{}).Read(data) // a file system must not compress it
	disk.WriteUnsynced(path, data)
}

// WithReserve runs a step that frees space. If the disk is full, it removes the reserve and
// runs the step once more. So a step can be repeated, and asks and prints nothing before its
// success. Afterwards WithReserve makes the reserve again.
func WithReserve(ctx context.Context, r *kist.Repository, step func() error) error {
	err := step()
	if IsFull(err) && disk.Remove(filepath.Join(r.Dir(), reserveFile)) == nil {
		err = step()
	}
	KeepReserve(ctx, r)
	return err
}
