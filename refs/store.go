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

// Store reads and writes the refs of one repository. It has no state except
// the path of the files. Any number of goroutines and processes may use one at
// the same time.
type Store struct {
	folder
	now func() time.Time
}

// Open returns the refs in kistDir, the path of a .kist folder. It does not
// read the folder. now returns the times for logs, in the zone to write.
func Open(kistDir string, now func() time.Time) *Store { return &Store{folder{kistDir}, now} }

// Ref is a name for a commit, or for the tag object of an annotated tag.
type Ref struct {
	Name   string // full, as in "refs/heads/main"
	ID     object.ID
	Target string // the ref that a remote's HEAD refers to; otherwise empty
}

// Get returns the ID of the ref with a full name. For a remote's HEAD it
// returns the ID of the branch that this refers to. The error matches
// [ErrNotFound] or [object.ErrCorrupt], or is a [*NameError].
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
// "", sorted by name. If refs are damaged, it returns all readable ones
// together with the joined errors.
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
		if errors.Is(err, ErrNotFound) { // deleted meanwhile, or refers to a deleted ref
			errs[i] = nil
		}
	}

	return refs, errors.Join(errs...)
}

// names returns the sorted names of the files below the folder root ("refs" or
// "logs") that begin with prefix, also names that are impossible for refs.
func (d folder) names(root, prefix string) ([]string, error) {
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
		entries, err := disk.ReadDir(d.path(dir))
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

// isAbsent reports whether err means that a path or a folder in it does not exist.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// each calls do for 0 to n-1, several at a time, and returns the error with
// the lowest number. The calls mostly wait for the disk.
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
