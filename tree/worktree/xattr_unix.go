//go:build linux || darwin

package worktree

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object"
)

func (f osFile) xattrs() (map[string][]byte, error) {
	return readXattrs(
		func(buf []byte) (int, error) { return unix.Flistxattr(int(f), buf) },
		func(name string, buf []byte) (int, error) { return unix.Fgetxattr(int(f), name, buf) })
}

// readXattrs reads extended attributes. List and get return the needed size for an empty
// buffer, as the system calls do.
func readXattrs(list func([]byte) (int, error), get func(string, []byte) (int, error)) (map[string][]byte, error) {
	names, err := sized(list)
	if unsupported(err) || len(names) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	all := map[string][]byte{}
	size := 0
	for name := range bytes.SplitSeq(bytes.TrimSuffix(names, []byte{0}), []byte{0}) {
		value, err := sized(func(buf []byte) (int, error) { return get(string(name), buf) })
		if err == errNoXattr {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		all[string(name)] = value
		if size += len(name) + len(value); size > object.MaxEntrySize {
			return nil, ErrManyXattrs
		}
	}

	return all, nil
}

// sized calls read with a buffer that is large enough.
func sized(read func([]byte) (int, error)) ([]byte, error) {
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
