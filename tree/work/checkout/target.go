package checkout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree/worktree"
)

// target is the folder that [Extract] writes to.
type target struct {
	w       *worktree.Worktree
	created bool
}

// openTarget opens the folder o.To. It creates a missing one. In a dry run, it only checks
// whether that is possible.
func openTarget(r *kist.Repository, o ExtractOptions) (target, error) {
	to := target{}
	_, err := os.Stat(o.To)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && o.DryRun:
		if err := checkCreatable(o.To); err != nil {
			return to, err
		}
		to.w = worktree.OfMissing(targetOptions(r, o))
	case missing && o.Root != nil:
		// Nobody else may look into it before finish gives it its permission bits.
		if err := cmp.Or(os.MkdirAll(filepath.Dir(o.To), 0o777), os.Mkdir(o.To, 0o700)); err != nil {
			return to, err
		}
		to.created = true
	case missing:
		if err := os.MkdirAll(o.To, 0o777); err != nil {
			return to, err
		}
	}

	if to.w == nil {
		if to.w, err = worktree.Open(o.To, targetOptions(r, o)); err != nil {
			return to, err
		}
	}
	if o.Git {
		to.w.AllowGit()
	}
	return to, nil
}

// targetOptions returns the options to open o.To, or the folder above it, as a worktree.
func targetOptions(r *kist.Repository, o ExtractOptions) worktree.Options {
	opt := r.WorktreeOptions(o.To)
	opt.Xattrs = o.Xattrs
	return opt
}

// checkCreatable returns the error that creating a missing folder, with those above it,
// would have.
func checkCreatable(dir string) error {
	full, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for at := full; ; at = filepath.Dir(at) {
		st, err := os.Stat(at)
		if err == nil && !st.IsDir() {
			err = unix.ENOTDIR
		}
		if err == nil {
			err = unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		}
		if _, linkErr := os.Lstat(at); linkErr == nil && errors.Is(err, fs.ErrNotExist) {
			err = unix.EEXIST // a symlink that leads nowhere
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			var path *fs.PathError
			if errors.As(err, &path) {
				err = path.Err
			}
			return &fs.PathError{Op: "mkdir", Path: dir, Err: err}
		}
		if err == nil {
			return nil
		}
	}
}

// finishFolder gives a created folder its properties, when everything in it is written.
func (t target) finishFolder(ctx context.Context, r *kist.Repository, o ExtractOptions, how worktree.ApplyOptions) error {
	if !t.created {
		return nil
	}
	full, err := filepath.Abs(o.To)
	if err != nil {
		return err
	}
	above, err := worktree.Open(filepath.Dir(full), targetOptions(r, o))
	if err != nil {
		return err
	}
	above.AllowGit() // the user chose the name
	how.Progress = nil
	_, err = above.Apply(ctx, nil, []worktree.Op{{Path: filepath.Base(full), New: o.Root}}, how)
	return err
}

// OutsideRepository makes sure that a path does not lie in a .kist folder or a bare repository.
// Nothing need exist at the path.
func OutsideRepository(dir string) error {
	full, err := filepath.Abs(dir)
	if err != nil {
		return err
	}

	// Resolve the symlinks of the existing part of the path.
	for at := full; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			full = filepath.Join(real, strings.TrimPrefix(full, at))
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}

	for at := full; at != filepath.Dir(at); at = filepath.Dir(at) {
		if filepath.Base(at) == kist.Dir || kist.IsBareDir(at) {
			return fmt.Errorf("%q is %w", dir, ErrInsideRepository)
		}
	}

	return nil
}
