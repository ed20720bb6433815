package checkout

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/ignore"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// CleanOptions configure [Clean].
type CleanOptions struct {
	Paths   []string               // nil: everything
	Select  func(path string) bool // selects among Paths; nil: all
	Folders bool                   // also untracked folders
	Ignored IgnoredFiles
	Exclude *ignore.Matcher // more ignored paths, which WithIgnored does not include; may be nil
	DryRun  bool
}

// IgnoredFiles selects what [Clean] does with ignored files.
type IgnoredFiles uint8

// The choices for ignored files.
const (
	WithoutIgnored IgnoredFiles = iota
	WithIgnored
	OnlyIgnored
)

// Cleaned is a path that [Clean] removes, or another repository that it keeps.
type Cleaned struct {
	Path       string // with a slash at the end of a folder
	Repository bool
}

// Clean removes untracked files, and returns the outermost removed paths, sorted. It
// removes no repository, of kist or git, nothing in folders where a file system is
// mounted, nothing behind symlinks, and not the user's current folder. If only some paths
// cannot be removed, the error is a [*worktree.ApplyError].
func Clean(ctx context.Context, r *kist.Repository, o CleanOptions) ([]Cleaned, error) {
	idx, err := r.Index()
	if err != nil {
		return nil, err
	}
	found, err := r.Worktree().Scan(ctx, idx, worktree.ScanOptions{Paths: o.Paths, ListIgnored: true})
	if err != nil {
		return nil, err
	}

	c := &cleaner{CleanOptions: o, repo: r, idx: idx}
	c.addAll(found)
	slices.SortFunc(c.list, func(a, b Cleaned) int { return strings.Compare(a.Path, b.Path) })
	if o.DryRun {
		return c.list, nil
	}
	err = stage.RemoveUntracked(ctx, r, c.ops)
	var failed *worktree.ApplyError
	if errors.As(err, &failed) {
		c.list = slices.DeleteFunc(c.list, func(at Cleaned) bool {
			return slices.ContainsFunc(failed.Failed, func(f worktree.FailedPath) bool { return tree.Below(f.Path, strings.TrimSuffix(at.Path, "/")) })
		})
	}
	return c.list, err
}

// cleaner collects the paths to remove.
type cleaner struct {
	CleanOptions
	repo *kist.Repository
	idx  *index.Index
	list []Cleaned
	ops  []worktree.Op
}

// addAll adds the paths to remove among the results of a scan. No result is below another
// one, except in folders that the index lacks.
func (c *cleaner) addAll(found []*worktree.Found) {
	for len(found) > 0 {
		f, below := split(&found)
		switch {
		case f.Old != nil || f.Dir && f.State != worktree.Untracked && f.State != worktree.Ignored: // tracked
			if f.State == worktree.ModeChanged {
				c.addAll(below)
			}
		case !f.Dir:
			if c.isRemovable(f, c.isInExcluded(f.Path)) {
				c.addToRemove([]*worktree.Found{f})
			}
		case c.isRepository(f.Path, below):
		case !c.Folders && (c.Ignored != OnlyIgnored || f.State == worktree.Ignored):
		default:
			if whole, parts := c.mayRemoveFolder(f, below, c.isInExcluded(f.Path)); whole {
				c.removeFolder(f, below)
			} else {
				parts()
			}
		}
	}
}

// split returns the first result, and all results below it. It takes them off the list.
func split(found *[]*worktree.Found) (f *worktree.Found, below []*worktree.Found) {
	f = (*found)[0]
	n := 1
	for n < len(*found) && f.Dir && tree.Below((*found)[n].Path, f.Path) {
		n++
	}
	below, *found = (*found)[1:n], (*found)[n:]
	return f, below
}

// mayRemoveFolder reports whether an untracked folder can be removed as a whole. If not, parts adds
// the parts that can be removed. Excluded means that the folder is in an excluded one.
func (c *cleaner) mayRemoveFolder(f *worktree.Found, below []*worktree.Found, excluded bool) (whole bool, parts func()) {
	var adds []func()
	parts = func() {
		for _, add := range adds {
			add()
		}
	}
	ignored, excluded := c.isIgnored(f, excluded)
	if isMounted(c.repo, f.Path) || c.Ignored == WithIgnored && excluded || c.Ignored == WithoutIgnored && ignored {
		return false, parts
	}

	whole, some := true, ignored || c.Ignored != OnlyIgnored
	for rest := below; len(rest) > 0; {
		e, inside := split(&rest)
		add, all := c.adderOf(e, inside, excluded)
		if add != nil {
			adds = append(adds, add)
		}
		whole, some = whole && (all || e.State == worktree.Special), some || all
	}
	selected := c.isSelected(f.Path) || c.isSelected(f.Path+"/") // as with the pattern dir/*
	return whole && some && selected && !tree.Below(c.repo.At(), f.Path), parts
}

// adderOf returns a function that adds an entry of an untracked folder, or parts of it, and
// whether it adds the whole entry.
func (c *cleaner) adderOf(e *worktree.Found, below []*worktree.Found, excluded bool) (add func(), whole bool) {
	switch {
	case e.Dir && c.isRepository(e.Path, below):
		if c.Ignored != OnlyIgnored && c.isSelected(e.Path) {
			c.list = append(c.list, Cleaned{Path: e.Path, Repository: true})
		}
		return nil, false
	case e.Dir:
		whole, add = c.mayRemoveFolder(e, below, excluded)
		if whole {
			add = func() { c.removeFolder(e, below) }
		}
		return add, whole
	case c.isRemovable(e, excluded):
		return func() { c.addToRemove([]*worktree.Found{e}) }, true
	}
	return nil, false
}

// isRemovable reports whether a file is to be removed.
func (c *cleaner) isRemovable(f *worktree.Found, excluded bool) bool {
	if f.State != worktree.Untracked && f.State != worktree.Ignored && f.State != worktree.TypeChanged || !c.isSelected(f.Path) || path.Base(f.Path) == worktree.GitName || c.idx.Intended(f.Path) {
		return false
	}
	ignored, excluded := c.isIgnored(f, excluded)
	switch c.Ignored {
	case OnlyIgnored:
		return ignored
	case WithIgnored:
		return !excluded
	}
	return !ignored
}

// isInExcluded reports whether a path is in an excluded folder.
func (c *cleaner) isInExcluded(path string) bool {
	for dir, _ := tree.Split(path); dir != ""; dir, _ = tree.Split(dir) {
		if excluded, _ := c.Exclude.Match(dir, true); excluded {
			return true
		}
	}
	return false
}

// isIgnored reports whether a path is ignored, and whether c.Exclude ignores it. A negated
// pattern of c.Exclude overrides ignore files. Excluded means that the path is in an excluded
// folder.
func (c *cleaner) isIgnored(f *worktree.Found, excluded bool) (ignored, byExclude bool) {
	match, rule := c.Exclude.Match(f.Path, f.Dir)
	byExclude = excluded || match
	return byExclude || f.State == worktree.Ignored && !rule.Negated, byExclude
}

func (c *cleaner) isSelected(path string) bool {
	return stage.Selected(path, c.Paths) && (c.Select == nil || c.Select(path))
}

// removeFolder adds a folder, if folders are to be removed.
func (c *cleaner) removeFolder(f *worktree.Found, below []*worktree.Found) {
	if c.Folders {
		c.addToRemove(append([]*worktree.Found{f}, below...))
	}
}

// addToRemove adds a file, or a folder with everything in it.
func (c *cleaner) addToRemove(found []*worktree.Found) {
	top := Cleaned{Path: found[0].Path}
	if found[0].Dir {
		top.Path += "/"
	}
	c.list = append(c.list, top)
	for _, f := range found {
		op := worktree.Op{Path: f.Path}
		if !f.Dir {
			e := index.NewEntry(object.Entry{Type: f.Type, Mode: f.Mode}, f.Stat)
			op.Old = &e
		}
		c.ops = append(c.ops, op)
	}
}

// isRepository reports whether a folder is a worktree or a bare repository of kist or git, or
// git's folder.
func (c *cleaner) isRepository(dir string, below []*worktree.Found) bool {
	if path.Base(dir) == worktree.GitName || isBareRepository(filepath.Join(c.repo.Root(), filepath.FromSlash(dir))) {
		return true
	}
	// The scan does not list git's folder.
	if _, err := os.Lstat(filepath.Join(c.repo.Root(), filepath.FromSlash(dir), worktree.GitName)); !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	return slices.ContainsFunc(below, func(f *worktree.Found) bool {
		at, _ := tree.Split(f.Path)
		return at == dir && f.State == worktree.Nested
	})
}

// isBareRepository reports whether a folder has the names of a repository of kist or git.
func isBareRepository(dir string) bool {
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return has("HEAD") && has("config") && has("refs") && (has("objects") || has("volumes"))
}

// isMounted reports whether a file system is mounted at a folder, or may be.
func isMounted(r *kist.Repository, dir string) bool {
	mounted, err := worktree.IsMountPoint(r.Worktree(), dir)
	return mounted || err != nil
}
