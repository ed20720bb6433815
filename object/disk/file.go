// Package disk changes small files safely: a file is replaced whole or not at
// all, what a function has done is on disk when it returns, and locks end with
// the process that holds them.
package disk

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces the file at path, or makes it. At every moment, and after
// a crash at any, the file has its old content or data. The folder must exist.
// Only one process at a time may write a path: hold a [Lock].
func WriteFile(path string, data []byte) error {
	dir, name := filepath.Split(path)
	return Write(dir, name+".tmp", func(w io.Writer) (string, error) {
		_, err := w.Write(data)
		return name, err
	})
}

// Write is [WriteFile] for what is written bit by bit, or has a name that is
// known only then: write returns it. Until the end it is the file temp in the
// same folder, which is removed first if a process left it there.
func Write(dir, temp string, write func(io.Writer) (name string, err error)) error {
	if err := WriteHint(dir, temp, write); err != nil {
		return err
	}
	return SyncDir(dir)
}

// WriteHint is [Write] for what may be lost: after a crash, the file may have
// its old content although the function has returned. It never has any other.
func WriteHint(dir, temp string, write func(io.Writer) (name string, err error)) error {
	path := filepath.Join(dir, temp)
	if err := Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 256<<10)
	name, err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = Rename(path, filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, Remove(path))
	}
	return nil
}

// MakeDir makes a folder and the folders above it, and has their names on disk
// when it returns.
func MakeDir(dir string) error {
	if info, err := Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := MakeDir(above); err != nil {
			return err
		}
	}
	if err := Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(above)
}

// SyncDir has the names in a folder on disk when it returns.
func SyncDir(dir string) error {
	if dir == "" {
		dir = "."
	}
	d, err := Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
