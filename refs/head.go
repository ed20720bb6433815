package refs

import (
	"bytes"
	"context"
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

// Head is the branch or commit that is checked out.
type Head struct {
	Branch string    // short name, as in "main"; empty: HEAD is detached
	ID     object.ID // the commit; zero: the branch has no commit yet
}

// Unborn reports whether HEAD is on a branch without a commit.
func (h Head) Unborn() bool { return h.ID.IsZero() }

// String returns the branch, or the ID if there is none.
func (h Head) String() string {
	if h.Branch != "" {
		return h.Branch
	}
	return h.ID.String()
}

// Head returns HEAD. Every repository has one, so a missing HEAD is damage.
func (s *Store) Head() (Head, error) {
	v, found, err := s.value("HEAD")
	switch {
	case err != nil:
		return Head{}, err
	case !found:
		return Head{}, &CorruptError{File: "HEAD", Err: errors.New("missing")}
	case v.target == "":
		return Head{ID: v.id}, nil
	}

	id, err := s.Get(v.target)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Head{}, err
	}

	return Head{Branch: strings.TrimPrefix(v.target, Heads), ID: id}, nil
}

// Init puts the HEAD of a new repository on a branch that is yet to come.
func (s *Store) Init(branch string) error {
	if err := CheckName(Heads + branch); err != nil {
		return err
	}
	return s.writeOne(context.Background(), file{"HEAD", value{target: Heads + branch}.encode()})
}

// SetHead puts HEAD on a branch, which need not exist, or detaches it at a
// commit if h has no branch. With both, the branch has to be at the ID, or
// the error is a [*MovedError]. It replaces a HEAD that is damaged or missing
// too. reason goes to HEAD's log: after a checkout it has to be
// [CheckoutReason], or "@{-1}" does not see it.
func (s *Store) SetHead(ctx context.Context, h Head, who Who, reason string) error {
	v := value{id: h.ID}
	if h.Branch != "" {
		v = value{target: Heads + h.Branch}
		if err := CheckName(v.target); err != nil {
			return err
		}
	} else if h.ID.IsZero() {
		return &NameError{Reason: "HEAD needs a branch or a commit"}
	}

	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	id := h.ID
	if v.target != "" {
		if id, err = s.current(v.target, value{}); err != nil {
			return err
		}
		if !h.ID.IsZero() && h.ID != id {
			return &MovedError{Name: v.target, Want: h.ID, Have: id}
		}
	}

	old, err := s.Head()
	if err != nil && !errors.Is(err, object.ErrCorrupt) {
		return err
	}
	if err := s.setHead(v, old.ID, id, who, reason); err != nil {
		return fmt.Errorf("set HEAD: %w", err)
	}

	return nil
}

// setHead writes HEAD and logs the change. The caller holds the lock.
func (s *Store) setHead(v value, old, new object.ID, who Who, reason string) error {
	e, err := s.newEntry(old, new, who, reason)
	if err != nil {
		return err
	}
	var lines []logLine
	if !old.IsZero() || !new.IsZero() {
		lines = append(lines, logLine{"HEAD", e, "HEAD"})
	}
	return s.replace(lines, []file{{"HEAD", v.encode()}})
}

// BranchOf returns the short name of a branch, given its full one.
func BranchOf(name string) (branch string, ok bool) { return strings.CutPrefix(name, Heads) }

const checkoutPrefix = "checkout: moving from "

// CheckoutReason returns the reason to log when a checkout moves HEAD.
func CheckoutReason(from, to Head) string {
	return checkoutPrefix + from.String() + " to " + to.String()
}

// CheckedOut returns the target of a checkout that a reason in HEAD's log
// records: the short name of a branch, or an ID in hexadecimal digits. It
// returns "" for any other reason.
func CheckedOut(reason string) string {
	move, ok := strings.CutPrefix(reason, checkoutPrefix)
	if !ok {
		return ""
	}
	_, to, _ := strings.Cut(move, " to ")
	return to
}

// Previous returns what "@{-n}" means: the branch, or the ID in hexadecimal
// digits, that was checked out before the n-th last checkout. n is at least 1.
func (s *Store) Previous(n int) (string, error) {
	entries, err := s.Log("HEAD")
	if err != nil {
		return "", err
	}

	for _, e := range entries {
		move, ok := strings.CutPrefix(e.Reason, checkoutPrefix)
		from, _, found := strings.Cut(move, " to ")
		if !ok || !found {
			continue
		}
		if n--; n == 0 {
			return from, nil
		}
	}

	return "", &NotFoundError{Name: "@{-n}"}
}

// SetRemoteHead makes a remote's HEAD, such as "refs/remotes/origin/HEAD",
// refer to one of the remote's branches, such as "refs/remotes/origin/main".
// An empty target removes the remote's HEAD, if it exists.
func (s *Store) SetRemoteHead(ctx context.Context, name, target string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if target != "" {
		if err := CheckName(target); err != nil {
			return err
		}
	}
	if !isRemoteHead(name) || target != "" && !mayName(name, target) {
		return &NameError{Name: name, Reason: fmt.Sprintf("cannot stand for %q", target)}
	}

	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if target == "" {
		return s.delete([]string{name})
	}

	return s.write(file{name, value{target: target}.encode()})
}

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
func (d folder) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// value reads the file of a ref, of HEAD or of a special name. Found is false
// if it does not exist or is a folder.
func (d folder) value(name string) (v value, found bool, err error) {
	data, found, err := d.read(name, maxValueSize)
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
func (d folder) read(name string, limit int64) (data []byte, found bool, err error) {
	f, err := disk.OpenFile(d.path(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
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
