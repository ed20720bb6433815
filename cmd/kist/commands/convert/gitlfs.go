package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object/disk"
)

// lfsFolder returns the folder in which git-lfs keeps contents by their SHA-256.
func lfsFolder(ctx context.Context, env *cli.Env, dir string) (string, error) {
	at, err := gitLines(ctx, env, dir, "rev-parse", "--git-common-dir")
	if err != nil {
		return "", err
	}
	if len(at) != 1 { // a line break in the path
		return "", fmt.Errorf("the name of git's folder in %s has a line break", cli.QuotePath(dir))
	}
	storage, err := gitLines(ctx, env, dir, "config", "--default", "", "--type=path", "--get", "lfs.storage")
	if err != nil {
		return "", err
	}

	lfs := absolute(dir, at[0])
	if len(storage) == 1 {
		lfs = absolute(lfs, storage[0])
	} else {
		lfs = filepath.Join(lfs, "lfs")
	}
	return filepath.Join(lfs, "objects"), nil
}

// lfsName returns the name of a content below the folder.
func lfsName(sum string) string { return filepath.Join(sum[:2], sum[2:4], sum) }

// openLFS opens a content. The error is [fs.ErrNotExist] if it is missing.
func openLFS(folder, sum string) (io.ReadCloser, error) {
	f, err := os.OpenFile(filepath.Join(folder, lfsName(sum)), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: errors.New("not a file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// storeLFS stores a content, and returns its SHA-256.
func storeLFS(folder string, content io.Reader) (sum string, err error) {
	if err := disk.MakeDir(folder); err != nil {
		return "", err
	}
	temp := fmt.Sprintf(".kist-tmp-%d", os.Getpid())
	err = disk.WriteHint(folder, temp, func(w io.Writer) (string, error) {
		hash := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, hash), content); err != nil {
			return "", err
		}
		sum = hex.EncodeToString(hash.Sum(nil))
		return lfsName(sum), disk.MakeDir(filepath.Join(folder, filepath.Dir(lfsName(sum))))
	})
	return sum, err
}

// absolute returns a path that may be relative to a folder.
func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
