package index

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object/disk"
)

// Options are the options of [UpdateWith].
type Options struct {
	// Wait is the longest time to wait for the lock. Zero stands for
	// [disk.DefaultWait], a negative value for no wait.
	Wait time.Duration

	// From, if not nil, is an index that was loaded from the same directory. If the
	// files are unchanged since, apply gets From with all its edits, and nothing is
	// read. After an error its state is undefined.
	From *Index

	hint bool // a crash may undo the change, which only saves time
}

// Update changes the index in the directory .kist: it locks the index, loads it, calls
// apply, and writes the result. After Update returns nil, the change is durable. After
// a crash during Update, the index has all of the change or nothing of it. If apply
// changes nothing or returns an error, nothing is written. Update returns the error of
// apply unchanged.
//
// Other updates wait for this one, so apply should be short. If they hold the lock too
// long, the error is a [*disk.BusyError]. The objects that apply names must be in the
// store and stay there; the session of the store ensures that.
//
// The caller may keep reading the index that apply got after Update returns nil.
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

	x, err := loadIfChanged(kistDir, o.From)
	if err != nil {
		return err
	}
	x.file.stale = true // until everything succeeded
	if err := apply(x); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}

	if x.changed {
		write := writeFunc(disk.Write)
		if o.hint {
			write = disk.WriteHint
		}
		if err := x.save(kistDir, write); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
	}
	x.file.stale = false
	return nil
}

// UpdateIfFree is [UpdateWith] if no process holds the lock. Otherwise it does nothing
// and returns false. It is for changes that a crash may undo, like stat data of
// unchanged files. From may be nil.
func UpdateIfFree(ctx context.Context, kistDir string, from *Index, apply func(*Index) error) (bool, error) {
	err := UpdateWith(ctx, kistDir, Options{Wait: -1, From: from, hint: true}, apply)
	if errors.Is(err, disk.ErrBusy) {
		return false, nil
	}
	return err == nil, err
}

// loadIfChanged loads the index, or returns from if it still fits the files.
func loadIfChanged(kistDir string, from *Index) (*Index, error) {
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

// writeFunc is [disk.Write], which survives a crash, or [disk.WriteHint], which may not.
type writeFunc func(dir, temp string, write func(io.Writer) (name string, err error)) error

// save replaces the file index, the head, and writes a new base before it if too much has changed. The
// caller holds the lock.
func (x *Index) save(kistDir string, write writeFunc) error {
	var head bytes.Buffer
	err := errHeadFull
	x.fold = x.fold || x.file.sparse && x.leftOut == 0 // so that all files have the version of a full index
	if !x.fold {
		err = x.writeHead(&head, x.file.maxHead())
	}
	if err == errHeadFull {
		if err := x.saveBase(kistDir); err != nil {
			return err
		}
		head.Reset()
		write = disk.Write // the old base is removed afterwards
		err = x.writeHead(&head, x.file.maxHead())
	}
	if err != nil {
		return err
	}

	err = write(kistDir, headTemp, func(w io.Writer) (string, error) {
		_, err := w.Write(head.Bytes())
		return headName, err
	})
	if err != nil {
		return err
	}

	x.file.head = sha256.Sum256(head.Bytes())
	x.changed = false
	x.file.removeOld(kistDir)
	return nil
}

// saveBase writes the full index as a new base file.
func (x *Index) saveBase(kistDir string) error {
	var base baseRef
	err := disk.Write(kistDir, baseTemp, func(w io.Writer) (name string, err error) {
		hash := sha256.New()
		base.size, base.sum, err = x.writeBase(io.MultiWriter(w, hash))
		copy(base.id[:], hash.Sum(nil))
		return base.fileName(), err
	})
	if err != nil {
		return err
	}
	x.file.base, x.file.entries, x.file.sparse = base, x.entries, x.leftOut > 0
	x.tracked, x.fold = 0, false
	for d := range x.root.recorded(true) {
		d.dirty, d.inBase, d.edits, d.removed = false, true, nil, nil
	}

	return nil
}

// removeOld removes base files that the head does not name, and temporary files of
// processes that were killed. It ignores errors: such files only take space.
func (s *fileState) removeOld(kistDir string) {
	files, _ := disk.ReadDir(kistDir)
	for _, f := range files {
		name := f.Name()
		if name == baseTemp || strings.HasPrefix(name, basePrefix) && name != s.base.fileName() {
			disk.Remove(filepath.Join(kistDir, name))
		}
	}
}

// Replace writes x, which was not loaded from files, as the index if the index is
// damaged or missing. First it calls keep with the names of the existing files in
// kistDir, because it replaces or removes them afterwards. It changes nothing, and
// returns false, if the index is intact. An index in a newer format is a
// [*VersionError].
func Replace(ctx context.Context, kistDir string, x *Index, keep func(names []string) error) (replaced bool, err error) {
	lock, err := disk.Lock(ctx, filepath.Join(kistDir, lockName), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return false, fmt.Errorf("lock index: %w", err)
	}
	defer lock.Unlock()

	old, err := Load(kistDir)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return false, err
	}
	if err == nil && old.Saved() {
		return false, nil
	}

	entries, err := disk.ReadDir(kistDir)
	if err != nil {
		return false, fmt.Errorf("replace index: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() == headName || strings.HasPrefix(e.Name(), basePrefix) {
			names = append(names, e.Name())
		}
	}

	if err := keep(names); err != nil {
		return false, err
	}
	if err := x.save(kistDir, disk.Write); err != nil {
		return false, fmt.Errorf("replace index: %w", err)
	}
	return true, nil
}
