package browse

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
)

// topFolder is the root folder.
type topFolder struct{ h *History }

func (f topFolder) lookupNode(ctx context.Context, name string) (*Node, error) {
	switch name {
	case Branches:
		return f.h.virtualFolder(name, refsFolder{f.h, refs.Heads}), nil
	case Tags:
		return f.h.virtualFolder(name, refsFolder{f.h, refs.Tags}), nil
	case Commits:
		return f.h.virtualFolder(name, commitsFolder(f)), nil
	case Latest:
		id, err := f.h.source.Head(ctx)
		if err != nil {
			return nil, err
		}
		if id.IsZero() {
			return nil, absentError(name)
		}
		return f.h.peeledRoot(ctx, name, id)
	case Versions:
		if f.h.versions != nil {
			return f.h.virtualFolder(name, versionsFolder{f.h.versions, ""}), nil
		}
	}
	return nil, absentError(name)
}

func (f topFolder) listNodes(ctx context.Context, from string) iter.Seq2[*Node, error] {
	return inOrder(ctx, f.lookupNode, from, []string{Branches, Commits, Latest, Tags, Versions})
}

// inOrder lists the nodes of a folder with the given names, which are sorted. It passes over
// names that the folder does not have, and nodes with content that has expired or is lost.
func inOrder(ctx context.Context, lookup func(context.Context, string) (*Node, error), from string, names []string) iter.Seq2[*Node, error] {
	return func(yield func(*Node, error) bool) {
		for _, name := range names {
			if name < from {
				continue
			}
			n, err := lookup(ctx, name)
			if errors.Is(err, tree.ErrNotExist) || isUnavailable(err) {
				continue
			}
			if !yield(n, err) || err != nil {
				return
			}
		}
	}
}

// isUnavailable reports whether a commit cannot be shown: it has expired, or is missing or damaged.
func isUnavailable(err error) bool {
	return errors.Is(err, object.ErrExpired) || object.IsUnreadable(err)
}

// peeledRoot returns the root folder of a commit, or of the target of a tag object.
func (h *History) peeledRoot(ctx context.Context, name string, id object.ID) (*Node, error) {
	id, err := refs.Peel(ctx, h.objects, id)
	if err != nil {
		return nil, err
	}
	return h.commitRoot(ctx, name, id)
}

// refsFolder is a folder of refs. Prefix begins their full names and ends in a slash. A name with
// slashes is a folder in folders.
type refsFolder struct {
	h      *History
	prefix string
}

func (f refsFolder) lookupNode(ctx context.Context, name string) (*Node, error) {
	list, err := f.h.source.Refs(ctx, f.prefix+name)
	if err != nil {
		return nil, err
	}
	below := false
	for _, ref := range list {
		switch rest := strings.TrimPrefix(ref.Name, f.prefix+name); {
		case rest == "":
			return f.h.peeledRoot(ctx, name, ref.ID)
		case rest[0] == '/':
			below = true
		}
	}
	if !below {
		return nil, absentError(name)
	}
	return f.h.virtualFolder(name, refsFolder{f.h, f.prefix + name + "/"}), nil
}

func (f refsFolder) listNodes(ctx context.Context, from string) iter.Seq2[*Node, error] {
	list, err := f.h.source.Refs(ctx, f.prefix)
	if err != nil {
		return yieldError(err)
	}
	var names []string
	for _, ref := range list {
		name, _, _ := strings.Cut(ref.Name[len(f.prefix):], "/")
		names = append(names, name)
	}
	slices.Sort(names)
	return inOrder(ctx, f.lookupNode, from, slices.Compact(names))
}

// yieldError yields an error.
func yieldError(err error) iter.Seq2[*Node, error] {
	return func(yield func(*Node, error) bool) { yield(nil, err) }
}

// commitNames lists the names in the folder of commits. It keeps the commits that it has read.
type commitNames struct {
	h *History

	mu    sync.Mutex // guards the following
	known map[object.ID]commitInfo
	tips  []object.ID // for which the rest was computed
	names []string    // sorted
	ids   map[string]object.ID
}

type commitInfo struct {
	parents []object.ID
	when    string
}

// commitTime is the layout of the time in the name of a commit, in the zone of the commit.
const commitTime = "2006-01-02_15-04-05"

// currentNames returns the names of all commits that HEAD, branches and tags reach, sorted, and
// the commits. The caller must not change them.
func (c *commitNames) currentNames(ctx context.Context) ([]string, map[string]object.ID, error) {
	tips, err := c.findTips(ctx)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids != nil && slices.Equal(tips, c.tips) {
		return c.names, c.ids, nil
	}

	reached := map[object.ID]commitInfo{}
	err = graph.Walk(ctx, map[object.ID]bool{}, tips, func(id object.ID) ([]object.ID, error) {
		info, known := c.known[id]
		if !known {
			commit, err := object.ReadCommit(ctx, c.h.objects, id)
			if object.IsUnreadable(err) {
				return nil, nil // the others can be shown
			}
			if err != nil {
				return nil, err
			}
			info = commitInfo{commit.Parents, commit.Committer.When().Format(commitTime)}
		}
		reached[id] = info
		return info.parents, nil
	})
	if err != nil {
		return nil, nil, err
	}
	c.known, c.tips = reached, tips
	c.nameAll()
	return c.names, c.ids, nil
}

// findTips returns the commits that HEAD, branches and tags name, sorted.
func (c *commitNames) findTips(ctx context.Context) ([]object.ID, error) {
	head, err := c.h.source.Head(ctx)
	if err != nil {
		return nil, err
	}
	tips := []object.ID{head}
	for _, prefix := range []string{refs.Heads, refs.Tags} {
		list, err := c.h.source.Refs(ctx, prefix)
		if err != nil {
			return nil, err
		}
		for _, ref := range list {
			id, err := refs.Peel(ctx, c.h.objects, ref.ID)
			if err != nil && !object.IsUnreadable(err) {
				return nil, err
			}
			tips = append(tips, id)
		}
	}
	tips = slices.DeleteFunc(tips, object.ID.IsZero)
	slices.SortFunc(tips, object.ID.Compare)
	return slices.Compact(tips), nil
}

// nameAll names all known commits. Two that would have the same name get their full IDs.
func (c *commitNames) nameAll() {
	short := map[string]int{}
	for id, info := range c.known {
		short[info.when+"-"+id.Short()]++
	}
	c.ids, c.names = make(map[string]object.ID, len(c.known)), make([]string, 0, len(c.known))
	for id, info := range c.known {
		name := info.when + "-" + id.Short()
		if short[name] > 1 {
			name = info.when + "-" + id.String()
		}
		c.ids[name] = id
		c.names = append(c.names, name)
	}
	slices.SortFunc(c.names, cmp.Compare[string])
}

// byDigits returns the commit whose ID begins with hexadecimal digits.
func (c *commitNames) byDigits(ctx context.Context, digits string) (found object.ID, err error) {
	_, ids, err := c.currentNames(ctx)
	if err != nil {
		return found, err
	}
	unknown := &refs.UnknownRevisionError{Rev: digits}
	for _, id := range ids {
		if len(digits) < minDigits || !strings.HasPrefix(id.String(), digits) {
			continue
		}
		if !found.IsZero() {
			unknown.Reason = "several commits have IDs that begin so"
			return object.ID{}, unknown
		}
		found = id
	}
	if found.IsZero() {
		return found, unknown
	}
	return found, nil
}

// minDigits is the number of digits of an ID that name a commit.
const minDigits = 4

// commitsFolder is the folder of all commits.
type commitsFolder struct{ h *History }

func (f commitsFolder) lookupNode(ctx context.Context, name string) (*Node, error) {
	_, ids, err := f.h.commits.currentNames(ctx)
	if err != nil {
		return nil, err
	}
	id, ok := ids[name]
	if !ok {
		return nil, absentError(name)
	}
	return f.h.commitRoot(ctx, name, id)
}

func (f commitsFolder) listNodes(ctx context.Context, from string) iter.Seq2[*Node, error] {
	names, ids, err := f.h.commits.currentNames(ctx)
	if err != nil {
		return yieldError(err)
	}
	lookup := func(ctx context.Context, name string) (*Node, error) { return f.h.commitRoot(ctx, name, ids[name]) }
	return inOrder(ctx, lookup, from, names)
}
