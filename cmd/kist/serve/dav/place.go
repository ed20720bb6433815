package dav

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/browse"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/pending"
)

// place is the file or folder of a URL, which need not exist.
type place struct {
	folder     *browse.Node    // a folder above commits; nil: the place is in a tree
	branch     *pending.Branch // nil: read-only
	treeCommit object.ID       // of the tree, or the branch's before pending changes; zero: none
	side       compare.Side
	path       string // in the tree
	root       string // the path of the tree's root, with slashes, as in "branches/main"
	rules      *access.Rules
	slash      bool // the URL ends with a slash
}

// fullPath returns the path of the place below [Prefix], without a slash at either end.
func (p *place) fullPath() string {
	return strings.TrimSuffix(p.root+"/"+p.path, "/")
}

// href returns the URL path of a place below [Prefix].
func href(name string, dir bool) string {
	var b strings.Builder
	b.WriteString(Prefix)
	for part := range strings.SplitSeq(name, "/") {
		if part != "" {
			b.WriteString("/")
			b.WriteString(url.PathEscape(part))
		}
	}
	if dir {
		b.WriteString("/")
	}
	return b.String()
}

// placeOfURL returns the place of the decoded path of a URL. A path that leads out of a tree is an
// error.
func (q *request) placeOfURL(urlPath string) (*place, error) {
	rest, ok := strings.CutPrefix(urlPath, Prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return nil, &statusError{http.StatusNotFound, "no such file or folder"}
	}
	name, err := tree.CleanPath(strings.TrimPrefix(rest, "/"))
	if err != nil && strings.HasPrefix(rest, "//") {
		name, err = tree.CleanPath(strings.TrimLeft(rest, "/"))
	}
	if err != nil {
		return nil, &statusError{http.StatusForbidden, "not a possible name"}
	}
	p, err := q.placeOf(name)
	if err == nil {
		p.slash = strings.HasSuffix(rest, "/")
	}
	return p, err
}

// placeOf returns the place of a clean path below [Prefix].
func (q *request) placeOf(name string) (*place, error) {
	parts := strings.Split(name, "/")
	if parts[0] == browse.Versions {
		return nil, &tree.PathError{Path: name, Err: tree.ErrNotExist}
	}
	node := q.history.Root()
	for i, part := range parts {
		if name == "" {
			break
		}
		next, err := node.Lookup(q.r.Context(), part)
		if errors.Is(err, fs.ErrNotExist) && parts[0] == browse.Branches {
			if branch := q.unbornBranch(); branch != "" && (name + "/")[len(browse.Branches)+1:] != "" && tree.Below(strings.TrimPrefix(name, browse.Branches+"/"), branch) {
				return q.inBranch(branch, strings.TrimPrefix(strings.TrimPrefix(name, browse.Branches+"/"+branch), "/"), object.ID{}, compare.Side{Objects: q.repo.Contents()})
			}
		}
		if err != nil {
			return nil, err
		}
		if node = next; node.Commit.IsZero() {
			continue
		}
		root, path := strings.Join(parts[:i+1], "/"), strings.Join(parts[i+1:], "/")
		v := compare.Side{Tree: node.Content.ID, Objects: q.repo.Contents()}
		if parts[0] == browse.Branches {
			return q.inBranch(strings.Join(parts[1:i+1], "/"), path, node.Commit, v)
		}
		p := &place{treeCommit: node.Commit, side: v, path: path, root: root}
		return p, q.applyRules(p)
	}
	return &place{folder: node, root: name}, nil
}

// unbornBranch returns HEAD's branch if it has no commit, or "".
func (h *Handler) unbornBranch() string {
	if head, err := h.repo.Refs().Head(); err == nil && head.Unborn() {
		return head.Branch
	}
	return ""
}

// inBranch returns the place of a path in a branch. The view is that of the branch's commit.
func (q *request) inBranch(branch, path string, commit object.ID, v compare.Side) (*place, error) {
	p := &place{treeCommit: commit, side: v, path: path, root: browse.Branches + "/" + branch}
	if q.changes != nil {
		b, err := q.changes.Branch(q.r.Context(), branch)
		if err != nil {
			return nil, err
		}
		p.branch = b
		if p.side, err = b.View(q.r.Context()); err != nil {
			return nil, err
		}
	}
	return p, q.applyRules(p)
}

// applyRules sets the rules of the user for a place.
func (q *request) applyRules(p *place) (err error) {
	p.rules, err = q.o.Guard.Rules(q.r.Context(), q.user, compare.Side{Commit: p.treeCommit, Tree: p.side.Tree, Objects: p.side.Objects})
	if err != nil {
		return err
	}
	return p.concealPath(q.r.Context())
}

// concealPath moves a place in a folder that the user may not read into a folder that does not
// exist. So each method answers as for a missing folder.
func (p *place) concealPath(ctx context.Context) error {
	above := p.path
	for {
		seen, err := p.rules.Readable(ctx, above)
		if err != nil {
			return err
		}
		if seen || above == "" {
			break
		}
		above, _ = tree.Split(above)
	}

	hidden := strings.TrimPrefix(p.path[len(above):], "/")
	if _, below, ok := strings.Cut(hidden, "/"); ok {
		p.path = tree.Join(above, tree.Join(newUUID(), below))
	}
	return nil
}

// placeAt returns the place in the same tree at another state and path.
func (q *request) placeAt(p *place, v compare.Side, path string) (*place, error) {
	now := *p
	now.side, now.path = v, path
	return &now, q.applyRules(&now)
}

// readEntry returns the entry of the place. To a user who may not read it, it does not exist.
func (p *place) readEntry(ctx context.Context) (object.Entry, error) {
	if p.folder != nil {
		e := p.folder.Entry
		e.Type = object.TypeDir
		return e, nil
	}
	if tree.GitFolder(p.path) != "" { // a client may mount this server, and git there run commands from it
		return object.Entry{}, &tree.PathError{Path: p.path, Err: tree.ErrNotExist}
	}
	if err := p.mayRead(ctx, p.path); err != nil {
		return object.Entry{}, err
	}
	e, err := p.side.Find(ctx, p.path)
	if err == nil && e.Type != object.TypeFile && e.Type != object.TypeDir {
		err = &tree.PathError{Path: p.path, Err: tree.ErrNotExist} // a symlink, a device
	}
	if err == nil && p.slash && e.Type == object.TypeFile {
		err = &tree.PathError{Path: p.path, Err: tree.ErrNotDir}
	}
	return e, err
}

// mayRead is [access.Rules.MayRead], but a path that may not be read does not exist.
func (p *place) mayRead(ctx context.Context, path string) error {
	err := p.rules.MayRead(ctx, path)
	if errors.Is(err, access.ErrDenied) {
		err = &tree.PathError{Path: path, Err: tree.ErrNotExist}
	}
	return err
}

// readableEntries yields the entries of the folder that the user may read. Symlinks and special files are
// left out.
func (p *place) readableEntries(ctx context.Context) iter.Seq2[object.Entry, error] {
	return func(yield func(object.Entry, error) bool) {
		if p.folder != nil {
			p.listFolder(ctx, yield)
			return
		}
		dir, err := p.side.Find(ctx, p.path)
		if err != nil {
			yield(object.Entry{}, err)
			return
		}
		if dir.Content.IsZero() {
			return
		}
		for e, err := range p.rules.Entries(ctx, p.side.Objects, p.path, dir.Content.ID, "") {
			if err == nil && (e.Type != object.TypeFile && e.Type != object.TypeDir || object.IsGitName(e.Name)) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// listFolder yields the content of a folder above commits.
func (p *place) listFolder(ctx context.Context, yield func(object.Entry, error) bool) {
	for n, err := range p.folder.List(ctx, "") {
		if err != nil {
			yield(object.Entry{}, err)
			return
		}
		if p.root == "" && n.Name == browse.Versions {
			continue
		}
		e := n.Entry
		e.Type = object.TypeDir
		if !yield(e, nil) {
			return
		}
	}
}

// checkWritable returns an error unless the place is in a branch that can be changed, and not its
// root.
func (p *place) checkWritable() error {
	switch {
	case p.branch == nil:
		return &statusError{http.StatusForbidden, "this part of the server is read-only"}
	case p.path == "":
		return &statusError{http.StatusForbidden, "a branch itself cannot be changed here"}
	}
	return nil
}

// checkName returns an error if no tree can have an entry at the path.
func (p *place) checkName() error {
	if err := tree.CheckPath(p.path); err != nil {
		return &statusError{http.StatusForbidden, "kist stores no file of this name"}
	}
	return nil
}

// checkParent returns an error with the status 409 unless the parent of the place is a folder.
func (p *place) checkParent(ctx context.Context) error {
	dir, _ := tree.Split(p.path)
	e, err := p.side.Find(ctx, dir)
	switch {
	case errors.Is(err, tree.ErrNotExist), errors.Is(err, tree.ErrNotDir), err == nil && e.Type != object.TypeDir:
		return &statusError{http.StatusConflict, "the folder above it does not exist"}
	}
	return err
}

// isNotFound reports whether a place does not exist because of err.
func isNotFound(err error) bool {
	return errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || errors.Is(err, refs.ErrNotFound)
}
