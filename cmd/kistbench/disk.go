package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// block is the size of a small file on most disks, in bytes.
const block = 4096

// census is the number and size of the files in a folder.
type census struct {
	files int
	bytes int64 // the sum of the sizes of the files
	disk  int64 // bytes of the blocks of all files and folders
}

// count returns the census of several folders together. The blocks of a file with several names
// count once.
func count(dirs ...string) (census, error) {
	var c census
	seen := map[uint64]bool{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if info.Mode().IsRegular() {
				c.files++
				c.bytes += info.Size()
			}
			stat := info.Sys().(*syscall.Stat_t)
			if !d.IsDir() && stat.Nlink > 1 {
				if seen[stat.Ino] {
					return nil
				}
				seen[stat.Ino] = true
			}
			c.disk += stat.Blocks * 512
			return nil
		})
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// free returns the number of bytes that a user may still write to the file system of dir.
func free(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// settle flushes the page cache to disk. So no tool waits for the writes of another one.
func settle(ctx context.Context) error { return exec.CommandContext(ctx, "sync").Run() }

// readAll reads every file below dir, and returns the time that it took. Afterwards, the files
// are in the page cache.
func readAll(ctx context.Context, dir string) (time.Duration, error) {
	began := time.Now()
	buf := make([]byte, 1<<20)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return errors.Join(err, ctx.Err())
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		for err == nil {
			_, err = f.Read(buf)
		}
		if err != io.EOF {
			return err
		}
		return ctx.Err()
	})
	return time.Since(began), err
}

// writeDurably writes size bytes to a new file, flushes them to disk, and removes the file. It
// returns the time that it took without the removal.
func writeDurably(ctx context.Context, path string, size int64) (took time.Duration, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	buf := make([]byte, mib)
	began := time.Now()
	for size > 0 {
		n, err := f.Write(buf[:min(size, mib)])
		if err = errors.Join(err, ctx.Err()); err != nil {
			return 0, err
		}
		size -= int64(n)
	}
	err = f.Sync()
	return time.Since(began), err
}

// mirror makes the folder to equal to from. It writes only the files that differ, like a program
// that updates a folder. It copies the permissions of from, but the owner may always write.
func mirror(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	err := eachBelow(to, func(name string, d fs.DirEntry) error {
		if info, err := os.Lstat(filepath.Join(from, name)); err == nil && info.Mode().Type() == d.Type() {
			return nil
		}
		if err := os.RemoveAll(filepath.Join(to, name)); err != nil || !d.IsDir() {
			return err
		}
		return fs.SkipDir
	})
	if err != nil {
		return err
	}
	return eachBelow(from, func(name string, d fs.DirEntry) error {
		path, target := filepath.Join(from, name), filepath.Join(to, name)
		info, err := d.Info()
		switch {
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case d.IsDir():
			return os.MkdirAll(target, 0o777)
		case info.Mode().IsRegular():
			return mirrorFile(path, target, info.Mode().Perm()|0o600)
		}
		link, err := os.Readlink(path) // no data set has pipes and devices
		if have, _ := os.Readlink(target); err != nil || have == link {
			return err
		}
		return errors.Join(os.RemoveAll(target), os.Symlink(link, target))
	})
}

// eachBelow calls do with the relative path of everything in a folder.
func eachBelow(dir string, do func(name string, d fs.DirEntry) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return do(path[len(dir)+1:], d)
	})
}

func mirrorFile(from, to string, mode fs.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(to)
	if err == nil && info.Mode() == mode {
		if have, err := os.ReadFile(to); err == nil && bytes.Equal(have, data) {
			return nil
		}
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.WriteFile(to, data, mode)
}

// sameContent returns an error unless b has every file of a, with its content. A symlink in b stands for its target.
func sameContent(a, b string) error {
	return filepath.WalkDir(a, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		want, err := hashOf(path)
		if err != nil {
			return err
		}
		got, err := hashOf(b + path[len(a):])
		if err == nil && got != want {
			err = fmt.Errorf("%s differs from %s", b+path[len(a):], path)
		}
		return err
	})
}

func hashOf(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), err
}

// same returns an error unless a and b have the same number of files and of bytes.
func same(a, b string) error {
	want, err := count(a)
	if err != nil {
		return err
	}
	got, err := count(b)
	if err != nil {
		return err
	}
	if got.files != want.files || got.bytes != want.bytes {
		return fmt.Errorf("%d files with %d bytes were restored, of %d files with %d bytes", got.files, got.bytes, want.files, want.bytes)
	}
	return nil
}
