package index

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kist-vcs/kist/object/disk"
)

// Options are those of [UpdateWith].
type Options struct {
	// Wait is how long to wait for the lock; 0 stands for [disk.DefaultWait], less
	// for not at all.
	Wait time.Duration

	// From, if it is not nil, is an index that was loaded from the same
	// folder. If nobody has changed the files since, apply gets it, with
	// whatever was done to it, and nothing is read. After an error its state
	// is not defined.
	From *Index

	hint bool // a crash may undo the change, which only saves time
}

// Update changes the index in a repository's folder (.kist): it locks the
// index, loads it, calls apply, and writes what apply made of it. Until Update
// returns nil, readers may see the index as it was, and after a crash it is as
// it was or as apply made it; after nil it is durable. An error of apply is
// returned as it is, and nothing is written. If apply changes nothing, nothing
// is written either.
//
// Others that update the index wait meanwhile, so apply should only do what
// has been prepared. If they keep it locked too long, the error is a
// [*disk.BusyError]. Objects that apply names must be in the store, and stay there,
// which the store's session sees to.
//
// The index that apply got may be read on after Update has returned nil.
func Update(ctx context.Context, kistDir string, apply func(*Index) error) error {
	return UpdateWith(ctx, kistDir, Options{}, apply)
}

// UpdateWith is [Update] with options.
func UpdateWith(ctx context.Context, kistDir string, o Options, apply func(*Index) error) error {
	wait := o.Wait
	if wait == 0 {
		wait = disk.DefaultWait
	}
	lock, err := disk.Lock(ctx, filepath.Join(kistDir, lockName), disk.Exclusive, wait)
	if err != nil {
		return fmt.Errorf("lock index: %w", err)
	}
	defer lock.Unlock()
	x, err := reload(kistDir, o.From)
	if err != nil {
		return err
	}
	x.file.stale = true // unless all goes well
	if err := apply(x); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if x.changed {
		save := x.save
		if o.hint {
			save = x.saveHint
		}
		if err := save(kistDir); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
	}
	x.file.stale = false
	return nil
}

// UpdateIfFree is [UpdateWith], unless somebody has the index locked: then it
// does nothing and returns false. It is for what may be lost, like stat data
// of files that were found unchanged. From may be nil.
func UpdateIfFree(ctx context.Context, kistDir string, from *Index, apply func(*Index) error) (bool, error) {
	err := UpdateWith(ctx, kistDir, Options{Wait: -1, From: from, hint: true}, apply)
	if errors.Is(err, disk.ErrBusy) {
		return false, nil
	}
	return err == nil, err
}

// reload loads the index, or returns from if the files are as it left them.
func reload(kistDir string, from *Index) (*Index, error) {
	if from == nil || from.file.stale {
		return Load(kistDir)
	}
	head, err := readHeadFile(kistDir)
	if err != nil {
		return nil, err
	}
	var sum [sha256.Size]byte
	if head != nil {
		sum = sha256.Sum256(head)
	}
	if sum == from.file.head {
		return from, nil
	}
	return Load(kistDir)
}
