// Package disk changes small files safely: a file is replaced whole or not at
// all, what a function has done is on disk when it returns, and locks end with
// the process that holds them.
package disk

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile replaces the file at path, or makes it. At every moment, and after
// a crash at any, the file has its old content or data. The folder must exist.
// Only one process at a time may write a path: hold a [Lock].
func WriteFile(path string, data []byte) error {
	temp := path + ".tmp"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir has the names in a folder on disk when it returns.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
