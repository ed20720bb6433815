// Package browse shows history as read-only folders:
//
//	branches/NAME/…          the commit of a branch
//	tags/NAME/…              the commit of a tag
//	commits/DATE-ID/…        each commit that HEAD, a branch or a tag reaches
//	latest/…                 the commit of HEAD
//	versions/…/FILE@NUMBER   the versions of each file in the history of HEAD
//
// It reads a repository, or a remote without a clone. New commits and branches appear as
// they come. It takes no lock, so it never stops a writer.
package browse

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/cache"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
)

// The names of the folders in the root.
const (
	Branches = "branches"
	Tags     = "tags"
	Commits  = "commits"
	Latest   = "latest"
	Versions = "versions"
)

// DefaultCache is the default number of bytes that a History keeps in memory.
const DefaultCache = 128 << 20

// Options configure a History.
type Options struct {
	Cache int64            // bytes of objects to keep in memory; 0: DefaultCache
	Now   func() time.Time // the clock; only a remote needs it
	Git   bool             // show git's own folders; git runs commands from them, also in a mount
}

// History is the history of a repository or a remote. It is safe for concurrent use.
type History struct {
	source   Source
	objects  cachedReader
	commits  commitNames
	versions *versionIndex // nil: there are no versions
	git      bool          // see Options.Git
	reads    folderReads
}

// OfRepository returns the history of a repository, which must stay open. The History may be
// used beside the only goroutine that uses r.
func OfRepository(r *kist.Repository, o Options) *History {
	h := New(&repositorySource{r.Objects(), r}, o)
	h.versions = &versionIndex{h: h, repo: r}
	return h
}

// New returns the history that a source has. It has no versions.
func New(s Source, o Options) *History {
	if o.Cache == 0 {
		o.Cache = DefaultCache
	}
	h := &History{source: s, objects: cachedReader{cache.New(s, o.Cache), s, aheadFor(o.Cache)}, git: o.Git}
	h.commits.h = h
	return h
}

// isHidden reports whether a name in a commit is left out, as if there were no such entry.
func (h *History) isHidden(name string) bool { return !h.git && object.IsGitName(name) }

// Settle closes files of the repository that were removed since they were opened.
func (h *History) Settle() { h.source.CloseRemoved() }

// Node is a file or a folder. It does not change: a branch that moved has another node.
type Node struct {
	object.Entry           // of the root of a commit: its time is that of the commit
	Commit       object.ID // that has it; zero for the folders above commits

	h      *History
	in     object.ID                            // the tree that lists it; zero: another folder does
	folder folder                               // its content; nil: it is no folder
	load   func(context.Context) (*Node, error) // returns all of a partial node; nil: n has all
}

// IsPartial reports whether n is from a list, and has only name, type, mode, size, time and the ID
// of its content. A lookup of its name returns all.
func (n *Node) IsPartial() bool { return n.load != nil }

// folder is the content of a folder.
type folder interface {
	// lookupNode returns the node with a name. The error for a missing one matches
	// tree.ErrNotExist.
	lookupNode(ctx context.Context, name string) (*Node, error)

	// listNodes yields the nodes in the order of their names, from the first name that is not
	// before from. It yields an error once, as the last value.
	listNodes(ctx context.Context, from string) iter.Seq2[*Node, error]
}

// Root returns the folder with branches, tags and so on.
func (h *History) Root() *Node { return h.virtualFolder("", topFolder{h}) }

// virtualFolder returns a folder that is in no commit.
func (h *History) virtualFolder(name string, f folder) *Node {
	return &Node{Entry: object.Entry{Name: name, Type: object.TypeDir, Mode: 0o755}, h: h, folder: f}
}

// Commit returns the root folder of a commit. The error matches [object.ErrExpired] if its
// content has expired.
func (h *History) Commit(ctx context.Context, id object.ID) (*Node, error) {
	return h.commitRoot(ctx, "", id)
}

// Revision returns the root folder of the commit that a revision names. In a remote, a
// revision is the name of a branch or tag, HEAD, or the beginning of an ID.
func (h *History) Revision(ctx context.Context, rev string) (*Node, error) {
	id, err := h.source.Resolve(ctx, rev)
	switch {
	case err == nil && id.IsZero():
		id, err = h.commits.byDigits(ctx, rev)
	case err == nil:
		id, err = refs.Peel(ctx, h.objects, id)
	}
	if err != nil {
		return nil, err
	}
	return h.commitRoot(ctx, "", id)
}

func (h *History) commitRoot(ctx context.Context, name string, id object.ID) (*Node, error) {
	if err := h.source.CheckUsable(ctx, id); err != nil {
		return nil, err
	}
	c, err := object.ReadCommit(ctx, h.objects, id)
	if err != nil {
		return nil, err
	}
	when := c.Committer.Time
	key := object.Key{Kind: object.KindTree, ID: c.Tree}
	e := object.Entry{Name: name, Type: object.TypeDir, Mode: 0o755, MTime: when, Size: c.Bytes, Files: c.Files, Content: key}
	return h.entryNode(e, id, when), nil
}

// entryNode returns the node of an entry of a commit. A folder without a time gets that of the
// commit.
func (h *History) entryNode(e object.Entry, commit object.ID, when object.Time) *Node {
	n := &Node{Entry: e, Commit: commit, h: h}
	if e.Type == object.TypeDir {
		if _, ok := e.Modified(); !ok {
			n.MTime = when
		}
		n.folder = inCommit{h, e.Content.ID, commit, when}
	}
	return n
}

// Find returns the node at a path, with slashes, below n. The error is a [*tree.PathError].
func (n *Node) Find(ctx context.Context, path string) (*Node, error) {
	at := 0
	for name := range strings.SplitSeq(path, "/") {
		next := n
		var err error
		if name != "" {
			next, err = n.Lookup(ctx, name)
		}
		at += len(name)
		if err != nil {
			if bad, ok := errors.AsType[*tree.PathError](err); ok {
				err = bad.Err
			}
			return nil, &tree.PathError{Path: path[:at], Err: err}
		}
		n, at = next, at+1
	}
	return n, nil
}

// Lookup returns the node with a name in the folder n. The error matches [tree.ErrNotExist]
// if there is none, and [tree.ErrNotDir] if n is no folder.
func (n *Node) Lookup(ctx context.Context, name string) (*Node, error) {
	if n.folder == nil {
		return nil, &tree.PathError{Path: n.Name, Err: tree.ErrNotDir}
	}
	return n.folder.lookupNode(ctx, name)
}

// List yields the content of the folder n in the order of names, from the first name that is
// not before from. It yields an error once, as the last value.
func (n *Node) List(ctx context.Context, from string) iter.Seq2[*Node, error] {
	if n.folder == nil {
		return func(yield func(*Node, error) bool) { yield(nil, &tree.PathError{Path: n.Name, Err: tree.ErrNotDir}) }
	}
	return n.folder.listNodes(ctx, from)
}

// Fixed reports whether the content of the folder n never changes: it is in a commit.
func (n *Node) Fixed() bool {
	_, fixed := n.folder.(inCommit)
	return fixed
}

// Open opens the file n. The error matches [object.ErrPurged] if a part of its content was
// purged.
func (n *Node) Open(ctx context.Context) (*FileReader, error) {
	if n.Type != object.TypeFile {
		return nil, &tree.PathError{Path: n.Name, Err: errNotFile}
	}
	if n.load != nil {
		full, err := n.load(ctx)
		if err != nil {
			return nil, err
		}
		return full.Open(ctx)
	}
	if err := n.h.objects.checkFile(ctx, &n.Entry); err != nil {
		return nil, err
	}
	f := &FileReader{r: n.h.objects, entry: n.Entry}
	if !n.in.IsZero() {
		f.began = func(ctx context.Context) { n.h.reads.begin(ctx, n.h.objects, n.in, &n.Entry) }
	}
	return f, nil
}

var errNotFile = errors.New("not a regular file")

// absentError returns the error for a name that a folder does not have.
func absentError(name string) error { return &tree.PathError{Path: name, Err: tree.ErrNotExist} }

// inCommit is a folder of a commit.
type inCommit struct {
	h      *History
	tree   object.ID
	commit object.ID
	when   object.Time
}

func (f inCommit) lookupNode(ctx context.Context, name string) (*Node, error) {
	if f.h.isHidden(name) {
		return nil, absentError(name)
	}
	e, err := object.Lookup(ctx, f.h.objects, f.tree, name)
	if errors.Is(err, object.ErrNoEntry) {
		return nil, absentError(name)
	}
	if err != nil {
		return nil, err
	}
	return f.node(e), nil
}

// node returns the node of an entry of the folder.
func (f inCommit) node(e object.Entry) *Node {
	n := f.h.entryNode(e, f.commit, f.when)
	n.in = f.tree
	return n
}

func (f inCommit) listNodes(ctx context.Context, from string) iter.Seq2[*Node, error] {
	return func(yield func(*Node, error) bool) {
		for e, err := range object.EntriesFrom(ctx, f.h.objects, f.tree, from) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !f.h.isHidden(e.Name) && !yield(f.node(e), nil) {
				return
			}
		}
	}
}

// cachedReader reads objects through a cache, but no purged contents.
type cachedReader struct {
	*cache.Cache
	source Source
	ahead  int64 // bytes to read ahead at once
}

// Get implements [object.Reader].
func (r cachedReader) Get(ctx context.Context, key object.Key) (data []byte, err error) {
	data, err = r.Shared(ctx, key)
	return bytes.Clone(data), err
}

// GetBriefly implements [object.BriefReader].
func (r cachedReader) GetBriefly(ctx context.Context, key object.Key, use func([]byte) error) error {
	data, err := r.Shared(ctx, key)
	if err != nil {
		return err
	}
	return use(data)
}

// Shared is [cache.Cache.Shared] with the error for a purged content.
func (r cachedReader) Shared(ctx context.Context, key object.Key) ([]byte, error) {
	if err := r.checkPurged(key); err != nil {
		return nil, err
	}
	data, err := r.Cache.Shared(ctx, key)
	return data, r.explainMissing(key, err)
}

// checkPurged returns an error if key was purged.
func (r cachedReader) checkPurged(key object.Key) error {
	if key.Kind != object.KindChunk && key.Kind != object.KindManifest {
		return nil
	}
	records, err := r.source.Records()
	if err != nil {
		return err
	}
	return records.CheckPurged(key)
}

// checkFile is checkPurged for the content of a file and all its chunks.
func (r cachedReader) checkFile(ctx context.Context, e *object.Entry) error {
	records, err := r.source.Records()
	if err != nil {
		return err
	}
	return records.CheckFile(ctx, r, e)
}

// explainMissing returns the reason why an object is missing: it was purged meanwhile, or its loss was
// accepted. If there is no such reason, or for another error, it returns err.
func (r cachedReader) explainMissing(key object.Key, err error) error {
	if !errors.Is(err, object.ErrNotFound) {
		return err
	}
	records, _ := r.source.Records()
	return records.ExplainMissing(r.Cache, key, err)
}
