// Package blame finds the commits that brought the lines or bytes of a file.
package blame

import (
	"cmp"
	"context"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// FileInCommit is a file in a commit.
type FileInCommit struct {
	Commit object.ID // zero: the file is in the worktree, and this version not committed
	Path   string
}

// Origin is the version of a file that brought a part of it.
type Origin struct {
	FileInCommit
	Boundary bool         // the first commit, or one that the options exclude: the part may be older
	Previous FileInCommit // where the file was before; zero: nowhere
}

// File is the file to blame.
type File struct {
	FileInCommit
	Entry   object.Entry
	View    compare.Side   // reads the content
	Parents []FileInCommit // of a file that is not committed: the same file in HEAD and in a merged commit
}

// Options select the lines or bytes, and the history, of a blame.
type Options struct {
	Index   *versions.Index
	Exclude map[object.ID]bool // the history ends at these commits
	Space   tree.SpaceRule     // white space that does not count
	Lines   []Lines            // only these; none: all
}

// lineage walks the versions of a file, children before parents.
type lineage struct {
	r       *kist.Repository
	file    *File
	opt     *Options
	waiting []*node // sorted by number
	nodes   map[FileInCommit]*node
	near    *nearVersions // for lines
}

// node is a version of the file. Its pending parts come from it or from an older version.
type node struct {
	Origin
	number  int              // in an order with parents before children
	version versions.Version // if it is committed

	spans  []lineSpan // pending lines
	lines  []string   // its content, once it is needed
	read   bool
	chunks []uint64 // pending chunks, a bit each
}

func newHistory(r *kist.Repository, f *File, o *Options) *lineage {
	return &lineage{r: r, file: f, opt: o, nodes: map[FileInCommit]*node{}}
}

// startNode returns the node of the file itself.
func (h *lineage) startNode() *node {
	f := h.file
	if f.Commit.IsZero() {
		return h.addNode(&node{Origin: Origin{FileInCommit: f.FileInCommit}, number: int(^uint(0) >> 1)})
	}
	n, _ := h.nodeAt(f.Commit, f.Path)
	return n
}

// nodeAt returns the node for the file of a commit.
func (h *lineage) nodeAt(commit object.ID, path string) (*node, bool) {
	v, ok := h.opt.Index.At(commit, path)
	if !ok || v.Type != object.TypeFile {
		return nil, false
	}
	place := FileInCommit{v.Commit, path}
	boundary := h.opt.Exclude[v.Commit]
	if boundary {
		place.Commit = h.boundaryBefore(commit, v)
	}
	if n := h.nodes[place]; n != nil {
		return n, true
	}
	n := &node{Origin: Origin{FileInCommit: place, Boundary: boundary}, version: v, number: h.opt.Index.Number(place.Commit)}
	if !boundary {
		n.Boundary = len(h.opt.Index.Parents(v.Commit)) == 0
	}
	return h.addNode(n), true
}

// boundaryBefore returns the first excluded commit on the way from commit to the commit that made v,
// its version of the file. It returns the latter if there is none.
func (h *lineage) boundaryBefore(commit object.ID, v versions.Version) object.ID {
	x := h.opt.Index
	for !h.opt.Exclude[commit] && commit != v.Commit {
		for _, p := range x.Parents(commit) {
			if before, ok := x.At(p, v.Path); ok && before.Commit == v.Commit {
				commit = p
				break
			}
		}
	}
	return commit
}

func (h *lineage) addNode(n *node) *node {
	h.nodes[n.FileInCommit] = n
	at, _ := slices.BinarySearchFunc(h.waiting, n, func(a, b *node) int { return cmp.Compare(a.number, b.number) })
	h.waiting = slices.Insert(h.waiting, at, n)
	return n
}

// nextNode returns the next node, or nil. All its children were returned before.
func (h *lineage) nextNode() *node {
	if len(h.waiting) == 0 {
		return nil
	}
	n := h.waiting[len(h.waiting)-1]
	h.waiting = h.waiting[:len(h.waiting)-1]
	return n
}

// earlierNodes returns the nodes that n continues, one for each parent with the file. It also sets
// where the file was before.
func (h *lineage) earlierNodes(ctx context.Context, n *node) (list []*node, err error) {
	if n.Boundary {
		return nil, nil
	}
	places := h.file.Parents
	if !n.Commit.IsZero() {
		if places, err = h.parentPlaces(ctx, n); err != nil {
			return nil, err
		}
	}
	for _, place := range places {
		b, ok := h.nodeAt(place.Commit, place.Path)
		if !ok || slices.Contains(list, b) {
			continue
		}
		if list = append(list, b); len(list) == 1 {
			n.Previous = place
		}
	}
	return list, nil
}

// parentPlaces returns where the parents of a version's commit have, or would have, the file.
func (h *lineage) parentPlaces(ctx context.Context, n *node) (list []FileInCommit, err error) {
	x := h.opt.Index
	parents := x.Parents(n.Commit)
	for _, p := range parents {
		place := FileInCommit{p, n.Path}
		if _, ok := x.At(p, n.Path); !ok && n.version.From != "" {
			place.Path = n.version.From
			if _, ok := x.At(p, place.Path); !ok && len(parents) > 1 { // the index has one former path only
				if place.Path, err = h.formerPath(ctx, p, n); err != nil {
					return nil, err
				}
			}
		}
		list = append(list, place)
	}
	return list, nil
}

// formerPath returns the path of a version in a parent, or "".
func (h *lineage) formerPath(ctx context.Context, parent object.ID, n *node) (string, error) {
	before, err := compare.OfCommit(ctx, h.r, parent.String())
	if err != nil {
		return "", err
	}
	now, err := compare.OfCommit(ctx, h.r, n.Commit.String())
	if err != nil {
		return "", err
	}
	return FormerPath(ctx, before, now, n.Path)
}

// entryOf returns the entry of a version, and the view that reads its content.
func (h *lineage) entryOf(ctx context.Context, n *node) (object.Entry, compare.Side, error) {
	if n.FileInCommit == h.file.FileInCommit {
		return h.file.Entry, h.file.View, nil
	}
	e, err := n.version.Stored(ctx, h.r)
	return e, compare.Side{Commit: n.version.Commit, Objects: h.r.Contents()}, err
}

// sameContent reports whether two versions have the same content.
func (h *lineage) sameContent(a, b *node) bool { return h.contentID(a) == h.contentID(b) }

func (h *lineage) contentID(n *node) object.ID {
	if n.Commit.IsZero() {
		return tree.ContentID(&h.file.Entry)
	}
	return n.version.ID
}
