package browse

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// versionIndex finds the versions of the files in the history of HEAD.
type versionIndex struct {
	h    *History
	repo *kist.Repository

	mu      sync.Mutex // guards the following, and is held while index is used
	index   *versions.Index
	tip     versions.Tip
	root    *Node                 // of the tip
	deleted map[string]*deletedIn // by folder
	path    string                // of last
	last    *versions.Life        // the file that was looked for last; nil: none
}

// deletedIn lists the names in a folder that are in the history of the tip, but not in the tip.
type deletedIn struct {
	files   []string
	folders map[string]bool // folders with deleted files at any depth
}

// openIndex reads the index, if HEAD has moved since. It returns the root folder of HEAD, or nil
// if there is no commit. The caller holds x.mu.
func (x *versionIndex) openIndex(ctx context.Context) (*Node, error) {
	head, err := x.h.source.Head(ctx)
	if err != nil || head.IsZero() || head == x.tip.Commit {
		return x.root, err
	}
	root, err := x.h.commitRoot(ctx, "", head)
	if err != nil {
		return nil, err
	}
	index, err := versions.Open(ctx, x.repo, nil, head)
	if err != nil {
		return nil, err
	}
	tip := versions.Tip{Name: "HEAD", Commit: head}
	files, err := index.Deleted(ctx, tip)
	if err != nil {
		return nil, err
	}
	x.index, x.tip, x.root, x.deleted, x.last = index, tip, root, map[string]*deletedIn{}, nil
	for _, f := range files {
		x.addDeleted(f.Path)
	}
	return root, nil
}

// addDeleted notes a deleted file in its folder, and in the folders above.
func (x *versionIndex) addDeleted(path string) {
	dir, name := tree.Split(path)
	x.deletedIn(dir).files = append(x.deletedIn(dir).files, name)
	for dir != "" {
		dir, name = tree.Split(dir)
		in := x.deletedIn(dir)
		if in.folders[name] {
			return
		}
		in.folders[name] = true
	}
}

func (x *versionIndex) deletedIn(dir string) *deletedIn {
	if x.deleted[dir] == nil {
		x.deleted[dir] = &deletedIn{folders: map[string]bool{}}
	}
	return x.deleted[dir]
}

// findFile returns the life of the file at a path, or nil.
func (x *versionIndex) findFile(ctx context.Context, path string) (*versions.Life, error) {
	if x.last != nil && x.path == path {
		return x.last, nil
	}
	f, err := x.index.File(ctx, x.tip, path)
	if err != nil || f == nil {
		return nil, err
	}
	if last := f.Versions[len(f.Versions)-1]; last.Type == object.TypeDir || last.Moved {
		return nil, nil
	}
	x.path, x.last = path, f
	return f, nil
}

// versionsFolder shows the versions of the files in the folder at a path.
type versionsFolder struct {
	x    *versionIndex
	path string
}

func (f versionsFolder) lookupNode(ctx context.Context, name string) (*Node, error) {
	dir, v, err := f.findName(ctx, name)
	switch {
	case err != nil || dir != nil:
		return dir, err
	case v.Number > 0:
		return f.versionNode(ctx, name, v)
	}
	return nil, absentError(name)
}

// findName returns the folder with a name, or the version of a file. It reads no commit of a version.
func (f versionsFolder) findName(ctx context.Context, name string) (dir *Node, v versions.Version, err error) {
	f.x.mu.Lock()
	defer f.x.mu.Unlock()
	root, err := f.x.openIndex(ctx)
	if err != nil || root == nil || f.x.h.isHidden(name) {
		return nil, v, err
	}
	isDir, err := f.hasFolder(ctx, root, name)
	if err != nil {
		return nil, v, err
	}
	if isDir {
		return f.findSubfolder(name), v, nil
	}

	i := strings.LastIndexByte(name, '@')
	number, err := strconv.Atoi(name[i+1:])
	if i <= 0 || err != nil || number <= 0 || name[i+1:] != strconv.Itoa(number) {
		return nil, v, nil
	}
	file, err := f.x.findFile(ctx, tree.Join(f.path, name[:i]))
	if err != nil || file == nil {
		return nil, versions.Version{}, err
	}
	v, _ = file.Version(number)
	return nil, v, nil
}

// hasFolder reports whether the folder f has a folder with a name, now or in history.
func (f versionsFolder) hasFolder(ctx context.Context, root *Node, name string) (bool, error) {
	if in := f.x.deleted[f.path]; in != nil && in.folders[name] {
		return true, nil
	}
	n, err := root.Find(ctx, tree.Join(f.path, name))
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		return false, nil
	}
	return err == nil && n.Type == object.TypeDir, err
}

// findSubfolder returns the folder with a name. Its time is that of the tip.
func (f versionsFolder) findSubfolder(name string) *Node {
	n := f.x.h.virtualFolder(name, versionsFolder{f.x, tree.Join(f.path, name)})
	n.MTime = f.x.root.MTime
	return n
}

// versionNode returns the node of a version.
func (f versionsFolder) versionNode(ctx context.Context, name string, v versions.Version) (*Node, error) {
	commit, err := f.x.h.Commit(ctx, v.Commit)
	if err != nil {
		return nil, err
	}
	n, err := commit.Find(ctx, v.Path)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", v.Number, err)
	}
	n.Name = name
	return n, nil
}

func (f versionsFolder) listNodes(ctx context.Context, from string) iter.Seq2[*Node, error] {
	nodes, err := f.listAll(ctx)
	if err != nil {
		return yieldError(err)
	}
	return func(yield func(*Node, error) bool) {
		for _, n := range nodes {
			if n.Name >= from && !yield(n, nil) {
				return
			}
		}
	}
}

// listAll returns the content of the folder, in the order of names.
func (f versionsFolder) listAll(ctx context.Context) ([]*Node, error) {
	f.x.mu.Lock()
	defer f.x.mu.Unlock()
	root, err := f.x.openIndex(ctx)
	if err != nil || root == nil {
		return nil, err
	}
	nodes := map[string]*Node{}
	var files []string
	if in := f.x.deleted[f.path]; in != nil {
		files = slices.Clone(in.files)
		for name := range in.folders {
			if f.x.h.isHidden(name) {
				continue
			}
			nodes[name] = f.findSubfolder(name)
		}
	}
	dir, err := root.Find(ctx, f.path)
	if err == nil && dir.Type == object.TypeDir {
		for n, err := range dir.List(ctx, "") {
			if err != nil {
				return nil, err
			}
			if n.Type == object.TypeDir {
				nodes[n.Name] = f.findSubfolder(n.Name)
			} else {
				files = append(files, n.Name)
			}
		}
	}

	for _, name := range files {
		if err := f.addVersions(ctx, nodes, name); err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(nodes), func(a, b *Node) int { return strings.Compare(a.Name, b.Name) }), nil
}

// addVersions adds the versions of a file to nodes. It passes over those whose content has
// expired, and over names that a folder has. It reads no commit: the nodes are partial.
func (f versionsFolder) addVersions(ctx context.Context, nodes map[string]*Node, name string) error {
	file, err := f.x.findFile(ctx, tree.Join(f.path, name))
	if err != nil || file == nil {
		return err
	}
	for _, v := range file.Versions {
		at := fmt.Sprintf("%s@%d", name, v.Number)
		if v.Number == 0 || nodes[at] != nil {
			continue
		}
		err := f.x.h.source.CheckUsable(ctx, v.Commit)
		if isUnavailable(err) {
			continue
		}
		if err != nil {
			return err
		}
		n := &Node{Entry: v.Entry(), Commit: v.Commit, h: f.x.h}
		n.Name = at
		n.load = func(ctx context.Context) (*Node, error) { return f.versionNode(ctx, at, v) }
		nodes[at] = n
	}
	return nil
}
