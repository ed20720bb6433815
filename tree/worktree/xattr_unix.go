//go:build linux || darwin

package worktree

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object"
)

func (f osFile) xattrs(want wantXattr) (map[string][]byte, error) {
	return readXattrs(want,
		func(buf []byte) (int, error) { return unix.Flistxattr(int(f), buf) },
		func(name string, buf []byte) (int, error) { return unix.Fgetxattr(int(f), name, buf) })
}

// readXattrs reads the extended attributes that want selects. List and get return the needed size for an empty
// buffer, as the system calls do. A [*LeftXattrsError] names the attributes that an entry
// cannot hold beside the returned ones.
func readXattrs(want wantXattr, list func([]byte) (int, error), get func(string, []byte) (int, error)) (map[string][]byte, error) {
	names, err := readSized(list)
	if unsupported(err) || len(names) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	all, left := map[string][]byte{}, &LeftXattrsError{}
	size := 0
	sorted := strings.Split(strings.TrimSuffix(string(names), "\x00"), "\x00")
	slices.Sort(sorted) // so that the same ones are left out each time
	for _, name := range sorted {
		if !want.selects(name) {
			continue
		}
		value, err := readSized(func(buf []byte) (int, error) { return get(name, buf) })
		if err == errNoXattr {
			continue // removed meanwhile
		}
		if errors.Is(err, unix.E2BIG) || err == nil && size+len(name)+len(value) > object.MaxEntrySize {
			left.Names = append(left.Names, name)
			continue
		}
		if err != nil {
			return nil, err
		}
		all[name] = value
		size += len(name) + len(value)
	}

	return all, joinLeft(left)
}

// readSized calls read with a buffer that is large enough.
func readSized(read func([]byte) (int, error)) ([]byte, error) {
	buf := make([]byte, 256)
	for {
		n := 0
		err := retry(func() (err error) { n, err = read(buf); return err })
		if err == nil {
			return buf[:n:n], nil
		}
		if !errors.Is(err, unix.ERANGE) {
			return nil, err
		}
		err = retry(func() (err error) { n, err = read(nil); return err })
		if err != nil {
			return nil, err
		}
		buf = make([]byte, n+256)
	}
}

// unsupported reports whether err means that the file system has no extended attributes.
func unsupported(err error) bool {
	return errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}
