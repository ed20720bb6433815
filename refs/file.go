package refs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/kist-vcs/kist/object/disk"
)

// A folder reads and writes the files of refs in the .kist folder dir.
type folder struct{ dir string }

// staging is the folder in which files are written before they are renamed.
// Only the holder of the lock uses it.
const staging = "refs.tmp"

// clean removes the staging folder of a killed process.
func (d folder) clean() error { return disk.RemoveAll(d.path(staging)) }

// A file is a file to replace.
type file struct {
	name string // below the .kist folder, with slashes
	data []byte
}

// stage writes the files to the staging folder and syncs them. The returned
// function renames them to their places, in order, and returns how many it
// renamed. Until then no file has changed. The caller holds the lock.
func (d folder) stage(files []file) (place func() (placed int, err error), err error) {
	if len(files) == 0 {
		return func() (int, error) { return 0, nil }, nil
	}
	if err := disk.Mkdir(d.path(staging), 0o755); err != nil {
		return nil, err
	}

	staged := func(i int) string { return filepath.Join(d.path(staging), strconv.Itoa(i)) }
	err = each(len(files), func(i int) error { return writeSynced(staged(i), files[i].data) })
	var dirs []string
	for i := 0; err == nil && i < len(files); i++ {
		var made []string
		made, err = makeDirs(filepath.Dir(d.path(files[i].name)))
		dirs = append(append(dirs, made...), filepath.Dir(d.path(files[i].name)))
	}
	if err != nil {
		return nil, errors.Join(err, d.clean())
	}

	return func() (int, error) {
		for i, f := range files {
			if err := rename(staged(i), d.path(f.name)); err != nil {
				return i, errors.Join(err, d.clean())
			}
		}
		return len(files), errors.Join(syncDirs(dirs), d.clean())
	}, nil
}

// write replaces files, each atomically. The caller holds the lock.
func (d folder) write(files ...file) error {
	place, err := d.stage(files)
	if err == nil {
		_, err = place()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", files[0].name, err)
	}
	return nil
}

// writeSynced writes a new file and syncs it.
func writeSynced(path string, data []byte) error {
	f, err := disk.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// rename renames a file to path. It removes an empty folder there.
func rename(from, path string) error {
	err := disk.Rename(from, path)
	if info, statErr := disk.Lstat(path); err != nil && statErr == nil && info.IsDir() {
		removeEmpty(path)
		err = disk.Rename(from, path)
	}
	return err
}

// removeEmpty removes a folder that contains only folders.
func removeEmpty(dir string) {
	entries, _ := disk.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeEmpty(filepath.Join(dir, e.Name()))
		}
	}
	disk.Remove(dir)
}

// makeDirs makes a folder and its missing parents. It returns the folders with
// new entries.
func makeDirs(dir string) (changed []string, err error) {
	if _, err := disk.Stat(dir); err == nil {
		return nil, nil
	}

	above := filepath.Dir(dir)
	if above != dir {
		if changed, err = makeDirs(above); err != nil {
			return nil, err
		}
	}
	if err := disk.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return nil, err
	}

	return append(changed, above), nil
}

// remove removes the file of a name, if it exists, and then the empty folders
// above it, except refs and logs themselves. It returns the folder that
// changed.
func (d folder) remove(name string) (changed string, err error) {
	if err := disk.Remove(d.path(name)); err != nil && !isAbsent(err) {
		return "", err
	}
	dir := filepath.Dir(filepath.FromSlash(name))
	for filepath.Dir(dir) != "." && disk.Remove(filepath.Join(d.dir, dir)) == nil {
		dir = filepath.Dir(dir)
	}
	return filepath.Join(d.dir, dir), nil
}

// syncDirs syncs the entries of folders.
func syncDirs(dirs []string) error {
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	return each(len(dirs), func(i int) error {
		err := disk.SyncDir(dirs[i])
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile, because it was empty
			return nil
		}
		return err
	})
}

// lockFile is locked by writers.
const lockFile = "refs.lock"

// lock takes the writers' lock and returns the function that releases it. The
// error is a [*disk.BusyError] if others hold it for too long.
func (d folder) lock(ctx context.Context) (unlock func(), err error) {
	l, err := disk.Lock(ctx, d.path(lockFile), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return nil, fmt.Errorf("lock refs: %w", err)
	}
	if err := d.clean(); err != nil {
		l.Unlock()
		return nil, fmt.Errorf("lock refs: %w", err)
	}
	return l.Unlock, nil
}

// lockOut waits for writers and excludes them until the returned function is
// called. It needs no permission to write.
func (d folder) lockOut(ctx context.Context) (unlock func(), err error) {
	l, err := disk.Lock(ctx, d.path(lockFile), disk.Shared, disk.DefaultWait)
	if err != nil {
		return nil, fmt.Errorf("lock refs: %w", err)
	}
	return l.Unlock, nil
}
