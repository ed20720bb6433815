package dir

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/remote"
)

// List implements [remote.Blobs]. It holds one folder at a time in memory.
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		if err := remote.CheckPrefix(prefix); err != nil {
			yield(remote.Info{}, err)
			return
		}
		if err := b.list(ctx, prefix, yield); err != nil && !errors.Is(err, errStop) {
			yield(remote.Info{}, fail("list", prefix, err))
		}
	}
}

// errStop ends a walk when the caller stops.
var errStop = errors.New("stop")

func (b *Backend) list(ctx context.Context, prefix string, yield func(remote.Info, error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d, err := b.open(strings.TrimSuffix(prefix, "/"))
	if err != nil {
		if kindOf(err) == remote.ErrNotFound {
			return nil
		}
		return err
	}
	defer d.Close()
	return walk(ctx, d, prefix, yield)
}

// An entry is a file or folder in a folder.
type entry struct {
	name string // a folder's ends with a slash
	st   *unix.Stat_t
}

// walk yields the blobs in the folder d and in the folders below. The names of
// d's blobs begin with prefix.
func walk(ctx context.Context, d *os.File, prefix string, yield func(remote.Info, error) bool) error {
	entries, err := readFolder(ctx, d, prefix)
	if err != nil {
		return err
	}

	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name, isFolder := strings.CutSuffix(e.name, "/")
		if !isFolder {
			if !yield(infoOf(prefix+name, e.st), nil) {
				return errStop
			}
			continue
		}
		below, err := child(d, name)
		if kindOf(err) == remote.ErrNotFound || kindOf(err) == remote.ErrDamaged { // gone, or replaced, meanwhile
			continue
		}
		if err != nil {
			return err
		}
		err = walk(ctx, below, prefix+e.name, yield)
		below.Close()
		if err != nil {
			return err
		}
	}

	return nil
}

// readFolder returns the files and folders in the folder d that can be or
// contain blobs, sorted by the names of the blobs.
func readFolder(ctx context.Context, d *os.File, prefix string) (entries []entry, err error) {
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}

	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if remote.CheckName(prefix+name) != nil || prefix+name == temps || prefix == temps+"/" {
			continue
		}
		st, err := lstat(d, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			entries = append(entries, entry{name, st})
		case unix.S_IFDIR:
			entries = append(entries, entry{name + "/", nil})
		}
	}

	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}
