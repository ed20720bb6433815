package refs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Store reads and writes the refs of one repository. It holds no state but
// the place of the files, and is safe for concurrent use, by any number of
// processes.
type Store struct {
	dir string
	now func() time.Time
}

// Open returns the refs kept in kistDir, the path of a .kist folder. It does
// not look at the folder. now gives the times written to logs, in the zone to
// be written with them.
func Open(kistDir string, now func() time.Time) *Store { return &Store{dir: kistDir, now: now} }

// Ref is a name for a commit, or for the tag object of an annotated tag.
type Ref struct {
	Name   string // full, as in "refs/heads/main"
	ID     object.ID
	Target string // the ref that a remote's HEAD stands for; else empty
}

// Get returns the ID that the ref of a full name has. A remote's HEAD gives
// the ID of the branch it names. The error matches [ErrNotFound],
// [object.ErrCorrupt], or is a [*NameError].
func (s *Store) Get(name string) (object.ID, error) {
	ref, err := s.get(name)
	return ref.ID, err
}

func (s *Store) get(name string) (Ref, error) {
	if err := CheckName(name); err != nil {
		return Ref{}, err
	}
	v, found, err := s.value(name)
	ref := Ref{Name: name, ID: v.id, Target: v.target}
	if err == nil && found && v.target != "" {
		v, found, err = s.value(v.target)
		if err == nil && v.target != "" {
			err = &CorruptError{File: name, Err: errors.New("names a ref that names another")}
		}
		ref.ID = v.id
	}
	if err == nil && !found {
		err = &NotFoundError{Name: name}
	}
	if err != nil {
		return Ref{}, err
	}
	return ref, nil
}

// List returns the refs whose full names begin with prefix, such as Heads or
// "", in the order of their names. Damaged refs do not hide the others: all
// that can be read are returned, along with the errors, joined.
func (s *Store) List(prefix string) ([]Ref, error) {
	names, err := s.names("refs", prefix)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return CheckName(name) != nil })
	refs := make([]Ref, len(names))
	errs := make([]error, len(names))
	each(len(names), func(i int) error {
		refs[i], errs[i] = s.get(names[i])
		return nil
	})
	refs = slices.DeleteFunc(refs, func(r Ref) bool { return r.Name == "" })
	for i, err := range errs {
		if errors.Is(err, ErrNotFound) { // deleted since, or names what is gone
			errs[i] = nil
		}
	}
	return refs, errors.Join(errs...)
}

// names returns the names, sorted, of the files below the folder root ("refs"
// or "logs") that begin with prefix, whether or not they can be a ref's.
func (s *Store) names(root, prefix string) ([]string, error) {
	var names []string
	dirs := []string{root}
	if dir, _ := path.Split(prefix); strings.HasPrefix(dir, root+"/") {
		dirs[0] = strings.TrimSuffix(dir, "/")
		if !fs.ValidPath(dirs[0]) {
			return nil, nil
		}
	}
	for len(dirs) > 0 {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		entries, err := disk.ReadDir(s.path(dir))
		if err != nil && !isAbsent(err) {
			return nil, fmt.Errorf("list refs: %w", err)
		}
		for _, e := range entries {
			name := dir + "/" + e.Name()
			switch {
			case !strings.HasPrefix(name, prefix):
			case e.IsDir():
				dirs = append(dirs, name)
			default:
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// isAbsent reports whether err says that a path, or a folder in it, is not there.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// each calls do for 0 to n-1, some at a time, and returns the first error by
// number. Most of the time of what it is for goes into waiting for the disk.
func each(n int, do func(i int) error) error {
	workers := min(n, 4*runtime.GOMAXPROCS(0))
	if workers <= 1 {
		for i := range n {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				errs[i] = do(i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
