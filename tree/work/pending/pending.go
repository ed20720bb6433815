// Package pending makes commits from single changes, for servers. A change is on disk before
// the caller hears of its success. After a quiet time, the changes of a branch become one
// commit, with their user as the author.
//
// Changes are kept in two places. A journal ([docs/format/pending.md]) takes small ones: one
// write and one sync, which concurrent changes share. A ref below [refs.Pending] names a
// commit with all changes until the last checkpoint. There is one checkpoint for each large
// file, for each full journal, and before the branch moves. After a crash, [Open] finds both.
package pending

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// Dir is the folder with the journals, below .kist.
const Dir = "pending"

// lockFile is locked by the process that makes changes.
const lockFile = "pending.lock"

// The defaults of [Options].
const (
	DefaultQuiet = 5 * time.Second
	retryTime    = 30 * time.Second // after a commit that failed
)

// ErrClosed means that a change came after [Changes.Close].
var ErrClosed = errors.New("no change is accepted: the program is ending")

// Options configure [Open].
type Options struct {
	Quiet time.Duration // without changes, until a branch's changes become a commit
	Label string        // the first word of messages and reflog entries, such as "webdav"
	Warn  func(string)  // receives problems of commits in the background; nil: dropped

	// MayName reports whether the message of a commit may name a path. Everybody who sees
	// the branch can read messages. At is the tree that has the path, and the last commit that it follows. Nil: each path.
	MayName func(ctx context.Context, at compare.Side, path string) bool
}

// Changes makes and keeps the changes of a repository's branches. It is safe for concurrent
// use.
type Changes struct {
	repo    *kist.Repository
	options Options
	lock    *disk.FileLock

	worktreeLock sync.Mutex // held while the worktree or the index is used

	mu       sync.Mutex // guards the following
	branches map[string]*Branch
	closed   bool
}

// Open accepts changes, and recovers the changes of a former process. The error is a
// [*disk.BusyError] if another process accepts changes.
func Open(ctx context.Context, r *kist.Repository, o Options) (*Changes, error) {
	if o.Quiet <= 0 {
		o.Quiet = DefaultQuiet
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	lock, err := disk.Lock(ctx, filepath.Join(r.Dir(), lockFile), disk.Exclusive, 0)
	if err != nil {
		return nil, err
	}
	c := &Changes{repo: r, options: o, lock: lock, branches: map[string]*Branch{}}
	if err := c.recoverBranches(ctx); err != nil {
		lock.Unlock()
		return nil, err
	}
	return c, nil
}

// recoverBranches loads the branches with changes of another process.
func (c *Changes) recoverBranches(ctx context.Context) error {
	names, err := Uncommitted(c.repo)
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := c.loadBranch(ctx, name)
		if err != nil {
			return err
		}
		c.branches[name] = b
		b.commitAfter(c.options.Quiet)
	}
	return nil
}

// Uncommitted returns the branches with changes that are not committed, sorted by name.
func Uncommitted(r *kist.Repository) ([]string, error) {
	list, err := r.Refs().List(refs.Pending)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, ref := range list {
		names = append(names, strings.TrimPrefix(ref.Name, refs.Pending))
	}
	dir := filepath.Join(r.Dir(), Dir)
	files, err := disk.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		if len(f.Name()) != journalNameSize {
			continue
		}
		name, err := journalBranch(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Branch returns a branch, given its short name. The error matches [refs.ErrNotFound] if there
// is none. HEAD's branch need not have a commit.
func (c *Changes) Branch(ctx context.Context, name string) (*Branch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if b := c.branches[name]; b != nil {
		return b, nil
	}
	if _, err := commitOf(c.repo, name); err != nil {
		return nil, err
	}
	b, err := c.loadBranch(ctx, name)
	if err != nil {
		return nil, err
	}
	c.branches[name] = b
	return b, nil
}

// commitOf returns the commit of a branch. It is zero for HEAD's branch if that has no commit.
func commitOf(r *kist.Repository, name string) (object.ID, error) {
	id, err := r.Refs().Get(refs.Heads + name)
	if errors.Is(err, refs.ErrNotFound) {
		if head, herr := r.Refs().Head(); herr == nil && head.Unborn() && head.Branch == name {
			return object.ID{}, nil
		}
	}
	return id, err
}

// Commit makes the pending changes of all branches commits. It tries all branches, and returns
// the first error.
func (c *Changes) Commit(ctx context.Context) error {
	c.mu.Lock()
	list := make([]*Branch, 0, len(c.branches))
	for _, b := range c.branches {
		list = append(list, b)
	}
	c.mu.Unlock()

	var failed error
	for _, b := range list {
		if _, err := b.Commit(ctx); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// Close commits all changes and takes no more. Changes that cannot be committed stay on disk,
// and Close returns the reason.
func (c *Changes) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	err := c.Commit(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.branches {
		b.stopWork()
	}
	c.lock.Unlock()
	return err
}

// journalPath returns the path of a branch's journal.
func (c *Changes) journalPath(branch string) string {
	sum := object.Sum([]byte(branch))
	return filepath.Join(c.repo.Dir(), Dir, hex.EncodeToString(sum[:journalNameSize/2]))
}
