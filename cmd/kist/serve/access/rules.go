// Package access decides who may read and write which path of a repository, by the
// attributes acl, acl.read and acl.write of files and folders.
//
// The value of such an attribute is a list of words, separated by commas: names of users or
// groups, "users" for all users with a name, and "everyone". An empty list allows no user. A file
// or folder inherits the attributes of the folders above it, and the nearest one counts. If
// one path has several, acl.read and acl.write come before acl, which stands for both.
//
// Without a rule, all users with a name may read. A user may write a path if the user has a
// name, may read the path, and the rule for writing has the user or does not exist.
package access

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// The keys of the attributes.
const (
	Key      = "acl" // both reading and writing
	KeyRead  = "acl.read"
	KeyWrite = "acl.write"
)

// ErrDenied means that the rules do not let the user read or write a path.
var ErrDenied = errors.New("access denied")

// words returns the words of a list. White space around a word does not count.
func words(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.SplitSeq(list, ",") {
			if word = strings.TrimSpace(word); word != "" && !yield(word) {
				return
			}
		}
	}
}

// Rules has the rules for a user in one or two trees: those of the tree that the user looks
// at, and those of the present tree of the repository. Both have to allow an access, so that
// a new rule also protects the old versions of a path. It is safe for concurrent use.
type Rules struct {
	user  User
	trees []ruled
}

// ruled has the rules of one tree.
type ruled struct {
	objects object.Reader
	root    object.ID // of the tree

	mu   sync.Mutex
	dirs map[string]folder // folders that were looked up
}

// folder is a folder with its rules.
type folder struct {
	effective
	id object.ID // of its tree node; zero: there is no such folder
}

// effective is a rule for reading and one for writing. A nil rule does not exist.
type effective struct{ read, write *string }

// maxDirs is the most folders whose rules are kept for one [Rules].
const maxDirs = 1000

// New returns the rules for a user. The first tree is that of objects which the user looks
// at. Further trees restrict the access more. A zero tree has no rules.
func New(user User, objects object.Reader, roots ...object.ID) *Rules {
	r := &Rules{user: user}
	seen := map[object.ID]bool{{}: true}
	for _, root := range roots {
		if !seen[root] {
			seen[root] = true
			r.trees = append(r.trees, ruled{objects: objects, root: root, dirs: map[string]folder{}})
		}
	}
	return r
}

// MayRead returns nil if the user may read path, and ErrDenied if not. The path need not
// exist: then the rules of the nearest folder above it count. Any other error means that
// rules cannot be read, and denies the access, too.
func (r *Rules) MayRead(ctx context.Context, path string) error { return r.check(ctx, path, false) }

// Readable reports whether the user may read path. The error means that rules cannot be read.
func (r *Rules) Readable(ctx context.Context, path string) (bool, error) {
	err := r.MayRead(ctx, path)
	if errors.Is(err, ErrDenied) {
		return false, nil
	}
	return err == nil, err
}

// MayWrite returns nil if the user may create, change or remove path, and ErrDenied if not.
// Other errors are those of MayRead.
func (r *Rules) MayWrite(ctx context.Context, path string) error { return r.check(ctx, path, true) }

// Open reports whether the user may read and write every path, as the owner of the repository.
func (r *Rules) Open() bool { return r.user.Owner }

func (r *Rules) check(ctx context.Context, path string, write bool) error {
	if r.user.Owner {
		return nil
	}
	if write && r.user.Name == "" {
		return ErrDenied
	}
	if r.user.Name == "" && len(r.trees) == 0 {
		return ErrDenied
	}
	for i := range r.trees {
		rule, err := r.trees[i].at(ctx, path)
		if err != nil {
			return err
		}
		if rule.read == nil && r.user.Name == "" || rule.read != nil && !r.user.In(*rule.read) || write && rule.write != nil && !r.user.In(*rule.write) {
			return ErrDenied
		}
	}
	return nil
}

// at returns the rules of a path.
func (t *ruled) at(ctx context.Context, path string) (effective, error) {
	if path == "" {
		return effective{}, nil // the root has no attributes
	}
	dir, name := tree.Split(path)
	in, err := t.dir(ctx, dir)
	if err != nil {
		return effective{}, err
	}
	found, err := t.below(ctx, in, name)
	return found.effective, err
}

// dir returns a folder with its rules, from the cache if it is there.
func (t *ruled) dir(ctx context.Context, dir string) (folder, error) {
	if dir == "" {
		return folder{id: t.root}, nil
	}
	t.mu.Lock()
	known, ok := t.dirs[dir]
	t.mu.Unlock()
	if ok {
		return known, nil
	}

	above, name := tree.Split(dir)
	in, err := t.dir(ctx, above)
	if err != nil {
		return folder{}, err
	}
	found, err := t.below(ctx, in, name)
	if err != nil {
		return folder{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.dirs) >= maxDirs {
		clear(t.dirs)
	}
	t.dirs[dir] = found
	return found, nil
}

// below returns an entry of a folder with its rules. A missing entry has those of the folder.
func (t *ruled) below(ctx context.Context, in folder, name string) (folder, error) {
	if in.id.IsZero() {
		return in, nil
	}
	e, err := object.Lookup(ctx, t.objects, in.id, name)
	if errors.Is(err, object.ErrNoEntry) {
		return folder{effective: in.effective}, nil
	}
	if err != nil {
		return folder{}, err
	}
	found := folder{effective: in.with(e.Attrs)}
	if tree.IsDir(&e) {
		found.id = e.Content.ID
	}
	return found, nil
}

// with returns the rules of an entry with the given attributes below a.
func (a effective) with(attrs map[string]string) effective {
	if both, ok := attrs[Key]; ok {
		a = effective{&both, &both}
	}
	if read, ok := attrs[KeyRead]; ok {
		a.read = &read
	}
	if write, ok := attrs[KeyWrite]; ok {
		a.write = &write
	}
	return a
}
