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
	"slices"
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

// Rules has the rules for a user who looks at a commit: those of its tree, of the tree of the
// served branch, and of later commits. All have to allow an access, so that a new rule also
// protects the old versions of a path. It is safe for concurrent use.
type Rules struct {
	user   User
	top    effective // of the top folder
	trees  []ruled
	later  []*ruleFolder // a path without a rule there is not restricted
	recent *recent

	mu     sync.Mutex
	states map[string][]state // by folder: the different states of later
	hidden map[state]bool     // see [state.hidesBelow]
}

// ruled has the rules of one tree.
type ruled struct {
	objects object.Reader
	root    object.ID // of the tree; zero: it is empty

	mu   sync.Mutex
	dirs map[string]folder // folders that were looked up
}

// folder is a folder with its rules.
type folder struct {
	effective
	id object.ID // of its tree node; zero: there is no such folder
}

// maxDirs is the most folders whose rules are kept for one [Rules].
const maxDirs = 1000

// New returns the rules for a user by some trees of objects. The first tree is the one that
// the user looks at. Further trees restrict the access more. A zero tree is empty.
func New(user User, objects object.Reader, roots ...object.ID) *Rules {
	r := &Rules{user: user, states: map[string][]state{}, hidden: map[state]bool{}, recent: newRecent(newMemory())}
	for i, root := range append(roots, object.ID{}) {
		if i == 0 || !root.IsZero() && !slices.Contains(roots[:i], root) {
			r.trees = append(r.trees, ruled{objects: objects, root: root, dirs: map[string]folder{}})
		}
	}
	return r
}

// MayRead returns nil if the user may read path, and ErrDenied if not. The path need not
// exist: then the rules of the nearest folder above it count. Any other error means that
// rules cannot be read, and denies the access, too.
func (r *Rules) MayRead(ctx context.Context, path string) error {
	return r.checkAccess(ctx, path, false)
}

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
func (r *Rules) MayWrite(ctx context.Context, path string) error {
	return r.checkAccess(ctx, path, true)
}

// Open reports whether the user may read and write every path, as the owner of the repository.
func (r *Rules) Open() bool { return r.user.Owner }

// Shown returns the entry at a path as the user may see it. The error is that of MayRead. If
// something in a folder is hidden from the user, the folder has no size, number of files or ID.
func (r *Rules) Shown(ctx context.Context, path string, e object.Entry) (object.Entry, error) {
	if err := r.MayRead(ctx, path); err != nil {
		return object.Entry{}, err
	}
	if !tree.IsDir(&e) {
		return e, nil
	}
	all, err := r.ReadsAll(ctx, path)
	if err != nil {
		return object.Entry{}, err
	}
	if !all {
		e.Size, e.Files, e.Content = 0, 0, object.Key{}
	}
	return e, nil
}

// Entries yields the entries of the folder dir from a name on, as [Rules.Shown] returns them,
// and leaves out the ones hidden from the user. Id is that of the folder's tree node.
func (r *Rules) Entries(ctx context.Context, objects object.Reader, dir string, id object.ID, from string) iter.Seq2[object.Entry, error] {
	return func(yield func(object.Entry, error) bool) {
		for e, err := range object.EntriesFrom(ctx, objects, id, from) {
			if err == nil {
				e, err = r.Shown(ctx, tree.Join(dir, e.Name), e)
			}
			if errors.Is(err, ErrDenied) {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// ReadsAll reports whether the user may read a folder and everything in it. Otherwise its
// sizes, its number of files and its ID would reveal something. Rules for paths that do not
// exist in the commit count, too.
func (r *Rules) ReadsAll(ctx context.Context, dir string) (bool, error) {
	if r.user.Owner {
		return true, nil
	}
	if ok, err := r.Readable(ctx, dir); !ok || err != nil {
		return false, err
	}
	states := r.laterAt(dir)
	for i := range r.trees {
		rules, err := r.recent.rulesOf(ctx, r.trees[i].objects, r.trees[i].root)
		if err != nil {
			return false, err
		}
		states = append(states, state{effective: r.top, in: rules}.stateAt(dir))
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(states, func(s state) bool { return s.closed || s.hidesBelow(r.user, r.hidden) }), nil
}

func (r *Rules) checkAccess(ctx context.Context, path string, write bool) error {
	if r.user.Owner {
		return nil
	}
	if write && r.user.Name == "" {
		return ErrDenied
	}
	for i := range r.trees {
		rule, err := r.trees[i].rulesAt(ctx, r.top, path)
		if err != nil {
			return err
		}
		if rule.read == nil && r.user.Name == "" || !rule.allowUser(r.user, write) {
			return ErrDenied
		}
	}
	for _, s := range r.laterAt(path) {
		if s.closed || !s.allowUser(r.user, write) {
			return ErrDenied
		}
	}
	return nil
}

// allowUser reports whether the rules do not keep a user from reading, or from writing, too.
func (a effective) allowUser(u User, write bool) bool {
	return (a.read == nil || u.In(*a.read)) && (!write || a.write == nil || u.In(*a.write))
}

// laterAt returns the different states of a path by the rules of later commits.
func (r *Rules) laterAt(path string) (list []state) {
	if len(r.later) == 0 {
		return nil
	}
	if path == "" {
		for _, rules := range r.later {
			list = append(list, state{in: rules})
		}
		return list
	}

	dir, name := tree.Split(path)
	r.mu.Lock()
	above, known := r.states[dir]
	r.mu.Unlock()
	if !known {
		above = r.laterAt(dir)
		r.mu.Lock()
		if len(r.states) >= maxDirs {
			clear(r.states)
		}
		r.states[dir] = above
		r.mu.Unlock()
	}
	seen := map[state]bool{{}: true} // that of a path without rules restricts nothing
	for _, s := range above {
		if s = s.stateOfChild(name); !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	return list
}

// rulesAt returns the rules of a path, given those of the top folder.
func (t *ruled) rulesAt(ctx context.Context, top effective, path string) (effective, error) {
	if path == "" {
		return top, nil
	}
	dir, name := tree.Split(path)
	in, err := t.ruledDir(ctx, top, dir)
	if err != nil {
		return effective{}, err
	}
	found, err := t.entryBelow(ctx, in, name)
	return found.effective, err
}

// ruledDir returns a folder with its rules, from the cache if it is there.
func (t *ruled) ruledDir(ctx context.Context, top effective, dir string) (folder, error) {
	if dir == "" {
		return folder{top, t.root}, nil
	}
	t.mu.Lock()
	known, ok := t.dirs[dir]
	t.mu.Unlock()
	if ok {
		return known, nil
	}

	above, name := tree.Split(dir)
	in, err := t.ruledDir(ctx, top, above)
	if err != nil {
		return folder{}, err
	}
	found, err := t.entryBelow(ctx, in, name)
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

// entryBelow returns an entry of a folder with its rules. A missing entry has those of the folder.
func (t *ruled) entryBelow(ctx context.Context, in folder, name string) (folder, error) {
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
	found := folder{effective: in.overridden(ruleOf(e.Attrs))}
	if tree.IsDir(&e) {
		found.id = e.Content.ID
	}
	return found, nil
}
