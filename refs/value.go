package refs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// A value is the content of a ref's file: an ID, or the name of another ref.
type value struct {
	id     object.ID
	target string // full name; empty if it is an ID
}

const maxValueSize = 2048 // bytes of a ref's file

func (v value) line() string {
	if v.target != "" {
		return "ref: " + v.target
	}
	return v.id.String()
}

// encode returns a file of two lines: the value, and its checksum.
func (v value) encode() []byte { return disk.WithSum([]byte(v.line())) }

// decodeValue decodes a file. The second line may be absent, so that a person
// can write a file by hand.
func decodeValue(data []byte) (value, error) {
	line, rest, complete := bytes.Cut(data, []byte("\n"))
	if !complete {
		return value{}, errors.New("cut off")
	}

	var v value
	if target, symbolic := strings.CutPrefix(string(line), "ref: "); symbolic {
		if err := CheckName(target); err != nil {
			return value{}, err
		}
		v.target = target
	} else {
		id, err := object.ParseID(string(line))
		if err != nil {
			return value{}, err
		}
		if id.IsZero() {
			return value{}, errors.New("the zero ID")
		}
		v.id = id
	}
	if len(rest) > 0 && !bytes.Equal(data, v.encode()) {
		return value{}, errors.New("checksum does not fit")
	}

	return v, nil
}

// path returns the path of the file of a slash-separated name.
func (s *Store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// value reads the file of a ref, of HEAD or of a special name. Found is false
// if it does not exist or is a folder.
func (s *Store) value(name string) (v value, found bool, err error) {
	data, found, err := s.read(name, maxValueSize)
	if err != nil || !found {
		return value{}, false, err
	}
	v, err = decodeValue(data)
	if err == nil && v.target != "" && !mayName(name, v.target) {
		err = fmt.Errorf("names %s", v.target)
	}
	if err != nil {
		return value{}, false, &CorruptError{File: name, Err: err}
	}
	return v, true, nil
}

// mayName reports whether the ref name may refer to target: HEAD to a branch,
// and a remote's HEAD to a branch of the same remote.
func mayName(name, target string) bool {
	if name == "HEAD" {
		return strings.HasPrefix(target, Heads)
	}
	return isRemoteHead(name) && target != name && strings.HasPrefix(target, strings.TrimSuffix(name, "HEAD"))
}

// read returns the content of a file of at most limit bytes. It follows no
// symlink and does not wait for a FIFO.
func (s *Store) read(name string, limit int64) (data []byte, found bool, err error) {
	f, err := disk.OpenFile(s.path(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case isAbsent(err):
		return nil, false, nil
	case errors.Is(err, disk.ErrSymlink) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO):
		return nil, false, &CorruptError{File: name, Err: errors.New("not a regular file")}
	case err != nil:
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	case info.IsDir():
		return nil, false, nil
	case !info.Mode().IsRegular():
		return nil, false, &CorruptError{File: name, Err: errors.New("not a regular file")}
	case info.Size() > limit:
		return nil, false, &CorruptError{File: name, Err: fmt.Errorf("longer than %d bytes", limit)}
	}

	data = make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	}

	return data[:n], true, nil
}
