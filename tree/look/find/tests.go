package find

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/ignore"
)

// TestKeys are the keys of tests in the order of the help. There is also attr.KEY for each KEY of
// an attribute.
var TestKeys = []string{
	"name", "iname", "path", "type", "size", "newer", "older", "changed", "id", "sha256", "like", "content-type",
}

// newTest makes the test of a word.
func (q *Query) newTest(ctx context.Context, word string) (test, error) {
	key, value := splitWord(word)
	if attr, ok := strings.CutPrefix(key, "attr."); ok && attr != "" {
		return q.attrTest(attr, value), nil
	}
	if !slices.Contains(TestKeys, key) {
		return test{}, fmt.Errorf("no test is called %q; a file of this name is name=%s", key, word)
	}
	if value == "" {
		return test{}, fmt.Errorf("%s= has no value", key)
	}

	switch key {
	case "path":
		match, err := q.opt.Paths(value)
		return ofEntry(func(f *File) bool { return match(f.Path) }), err
	case "changed":
		return q.changedTest(ctx, value)
	case "sha256":
		return q.sumTest(value)
	case "like":
		return q.likeTest(ctx, value)
	case "content-type":
		return q.typeTest(value), nil
	}
	match, err := entryTest(key, value, q.opt.Now)
	return ofEntry(match), err
}

// ofEntry returns a cheap test.
func ofEntry(match func(f *File) bool) test {
	return test{cost: fromEntry, match: func(_ context.Context, f *File) (bool, error) { return match(f), nil }}
}

// entryTest returns a test of the name and the entry alone.
func entryTest(key, value string, now time.Time) (func(f *File) bool, error) {
	switch key {
	case "type":
		t, ok := types[value]
		if !ok {
			return nil, fmt.Errorf("no type is called %q: file, dir, symlink, fifo, char-device, block-device and socket are known", value)
		}
		return func(f *File) bool { return f.Entry.Type == t }, nil
	case "size":
		return sizeTest(value)
	case "newer", "older":
		at, err := refs.ParseTime(value, now)
		return func(f *File) bool {
			t, ok := f.Entry.Modified()
			return ok && (key == "newer" && t.After(at) || key == "older" && t.Before(at))
		}, err
	case "id":
		digits := strings.ToLower(value)
		if len(digits) < 4 || len(digits) > 64 || strings.Trim(digits, "0123456789abcdef") != "" {
			return nil, errors.New("an ID has 4 to 64 hexadecimal digits")
		}
		first, _ := hex.DecodeString(digits[:2])
		return func(f *File) bool {
			id := tree.ContentID(&f.Entry)
			return id[0] == first[0] && strings.HasPrefix(id.String(), digits)
		}, nil
	}
	if strings.Contains(value, "/") {
		return nil, errors.New("a name has no slash; path= compares paths")
	}
	match := textMatcher(value, key == "iname")
	return func(f *File) bool {
		_, name := tree.Split(f.Path)
		return match(name)
	}, nil
}

// textMatcher returns a function that reports whether a text matches a pattern. The pattern also
// matches itself.
func textMatcher(value string, fold bool) func(text string) bool {
	glob, ok := ignore.CompileGlob(value, false, fold)
	return func(text string) bool { return text == value || ok && glob.Match(text) }
}

// types lists the names of types: those of ls --json, and the letters of find(1).
var types = map[string]object.EntryType{
	"file": object.TypeFile, "f": object.TypeFile,
	"dir": object.TypeDir, "d": object.TypeDir,
	"symlink": object.TypeSymlink, "l": object.TypeSymlink,
	"fifo": object.TypeFIFO, "p": object.TypeFIFO,
	"char-device": object.TypeCharDevice, "c": object.TypeCharDevice,
	"block-device": object.TypeBlockDevice, "b": object.TypeBlockDevice,
	"socket": object.TypeSocket, "s": object.TypeSocket,
}

// sizeTest compares the size of files: +SIZE or more, -SIZE or less, or exactly SIZE.
func sizeTest(value string) (func(f *File) bool, error) {
	size, err := kist.ParseSize(strings.TrimLeft(value[:1], "+-") + value[1:])
	return func(f *File) bool {
		switch n := f.Entry.Size; {
		case f.Entry.Type != object.TypeFile:
			return false
		case value[0] == '+':
			return n >= size
		case value[0] == '-':
			return n <= size
		default:
			return n == size
		}
	}, err
}

// changedTest is the test changed=. In one tree, it selects the paths with another entry than in
// an earlier tree. In the history, it selects the versions that later commits made.
type changedTest struct {
	since  object.ID // a commit; zero: a time
	at     time.Time
	paths  map[string]bool    // in a tree: the changed paths
	before map[object.ID]bool // in the history: since, and its ancestors
}

func (c *changedTest) hasChanged(f *File) bool {
	switch {
	case f.commit.IsZero():
		return c.paths[f.Path]
	case c.since.IsZero():
		return f.seconds > c.at.Unix()
	}
	return !c.before[f.commit]
}

func (q *Query) changedTest(ctx context.Context, value string) (test, error) {
	c := &changedTest{}
	var err error
	resolve := q.opt.Resolve
	if resolve == nil {
		resolve = q.r.Resolve
	}
	if c.since, err = resolve(ctx, value); err != nil {
		at, timeErr := refs.ParseTime(value, q.opt.Now)
		if timeErr != nil {
			return test{}, fmt.Errorf("%q is neither a revision nor a time: %w", value, err)
		}
		c.since, c.at = object.ID{}, at
	}
	q.changed = append(q.changed, c)
	return ofEntry(c.hasChanged), nil
}

// findPaths finds the paths that differ from the earlier tree. A path outside of at does not
// matter.
func (c *changedTest) findPaths(ctx context.Context, r *kist.Repository, at SearchStart) error {
	since := c.since
	if since.IsZero() && !at.Commit.IsZero() {
		line := history.Walk(ctx, r.Objects(), []object.ID{at.Commit}, history.Options{FirstParent: true})
		for commit, err := range line {
			if err != nil {
				return err
			}
			if !commit.Committer.When().After(c.at) {
				since = commit.ID
				break
			}
		}
	}

	var base object.ID // of no tree: everything changed
	if !since.IsZero() {
		var err error
		if base, err = kist.CommitTree(ctx, r, since); err != nil {
			return err
		}
	}

	c.paths = map[string]bool{}
	for change, err := range tree.Diff(ctx, at.Objects, base, at.Root, tree.DiffOptions{Paths: []string{at.Path}, Recursive: true}) {
		if err != nil {
			return err
		}
		if change.New != nil {
			c.paths[change.Path] = true
		}
	}
	return nil
}

// findBefore sets c.before. All other commits count as later.
func (c *changedTest) findBefore(ctx context.Context, r *kist.Repository) (err error) {
	if !c.since.IsZero() {
		c.before, err = history.Ancestors(ctx, r.Objects(), []object.ID{c.since})
	}
	return err
}
