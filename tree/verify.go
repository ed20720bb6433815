package tree

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// ReasonTotals is the reason for which a directory's entry is rejected whose
// totals are not those of the directory.
const ReasonTotals object.Reason = "bad-totals"

// Problem is something that [Verifier] found to be wrong.
type Problem struct {
	// Key is the object that is missing, damaged or malformed. Of two that do
	// not fit together, it is the one that refers to the other, which may be
	// as others want it.
	Key  object.Key
	Path string // a path that leads to it; the directory of an entry that is wrong is in Key
	Err  error  // matches object.ErrNotFound, object.ErrCorrupt, object.ErrNewerFormat or ErrTooDeep
}

// Sizer knows how long objects are without reading them.
type Sizer interface {
	// StoredSize returns an object's size, and what it takes in the store.
	StoredSize(ctx context.Context, key object.Key) (raw, stored int64, err error)
}

// Verifier checks the structure of directories and of all that is below them:
// every node can be read and decoded; the nodes of a list end where they
// should and fit together (levels, order, last names, lengths); totals are right; nothing is nested
// too deep; and all chunks are there, and as long as their lists say, if Sizes
// can tell. It does not read chunks.
//
// A Verifier remembers about 150 bytes for each node it has seen, and looks at
// none twice: the time goes with the number of different objects, not of
// paths. It is not safe for concurrent use.
type Verifier struct {
	Reader object.Reader
	Sizes  Sizer         // may be nil
	Report func(Problem) // called for each problem, as it is found

	// Records say which contents need not be there.
	Records *record.View

	trees     map[object.ID]treeFacts
	manifests map[object.ID]manifestFacts
	chunks    []chunkUse
}

// treeFacts is what is remembered of a tree node.
type treeFacts struct {
	first, last string
	files       uint64
	bytes       uint64
	height      uint16 // directories below each other in it
	level       int8   // -1: could not be read
	only        bool   // an inner node with one child
	partial     bool   // not all of the list could be read: totals are not known
}

// chunkUse is a chunk whose existence is to be checked.
type chunkUse struct {
	key  object.Key
	by   object.Key // the node that links to it
	size uint64
	path string
}

// chunkBatch is the number of chunks that are asked for at once.
const chunkBatch = 1024

// Verify checks the directory with the given root node. What is wrong goes to
// Report; the error is that of ctx, or one of reading that says nothing about
// the objects. It returns the directory's totals, which its own entries give.
func (v *Verifier) Verify(ctx context.Context, root object.ID) (Info, error) {
	if v.trees == nil {
		v.trees = make(map[object.ID]treeFacts)
		v.manifests = make(map[object.ID]manifestFacts)
	}
	facts, err := v.root(ctx, root, treeKey(root), "", 0)
	if err == nil {
		err = v.checkChunks(ctx)
	}
	return Info{ID: root, Files: facts.files, Bytes: facts.bytes}, err
}

// root checks a node that is the root of a directory at path, as the node by
// says.
func (v *Verifier) root(ctx context.Context, id object.ID, by object.Key, path string, depth int) (treeFacts, error) {
	facts, err := v.tree(ctx, id, path, depth)
	if err == nil && facts.only {
		v.format(by, path, object.ReasonRoot, "an only child below level %d", facts.level)
	}
	return facts, err
}

// tree checks a node and what is below it. depth is the number of names in
// path.
func (v *Verifier) tree(ctx context.Context, id object.ID, path string, depth int) (treeFacts, error) {
	facts, seen := v.trees[id]
	if !seen {
		node, err := readChecked(ctx, v, treeKey(id), path, object.DecodeTree)
		if err != nil {
			facts = treeFacts{level: -1, partial: true}
			v.trees[id] = facts
			return facts, v.failed(ctx, treeKey(id), path, err)
		}
		if node.Level == 0 {
			facts, err = v.leaf(ctx, id, node, path, depth)
		} else {
			facts, err = v.inner(ctx, id, node, path, depth)
		}
		if err != nil {
			return facts, err
		}
		v.trees[id] = facts
	} else if facts.height > 0 && depth+int(facts.height) > object.MaxDepth {
		v.Report(Problem{treeKey(id), path, ErrTooDeep})
	}
	return facts, nil
}

// readChecked reads and decodes a node. That it goes on after a boundary is a
// problem, but no reason not to go on.
func readChecked[T any](ctx context.Context, v *Verifier, key object.Key, path string, decode func([]byte) (*T, error)) (*T, error) {
	data, err := v.Reader.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	var format *object.FormatError
	if err := object.Check(key.Kind, data); errors.As(err, &format) && format.Reason == object.ReasonSplit {
		v.Report(Problem{key, path, err})
	}
	return decode(data)
}

// inner checks a node with children.
func (v *Verifier) inner(ctx context.Context, id object.ID, node *object.Tree, path string, depth int) (treeFacts, error) {
	facts := treeFacts{level: int8(node.Level), only: len(node.Children) == 1}
	_, facts.last = bounds(node)
	after := ""
	for i, child := range node.Children {
		sub, err := v.tree(ctx, child.ID, path, depth)
		if err != nil {
			return facts, err
		}
		if sub.level >= 0 {
			key := treeKey(id)
			switch {
			case int(sub.level) != int(node.Level)-1:
				v.format(key, path, object.ReasonChild, "level %d below level %d", sub.level, node.Level)
			case sub.last != child.Last:
				v.format(key, path, object.ReasonChild, "last name %q, parent says %q", sub.last, child.Last)
			case sub.first != "" && sub.first <= after:
				v.format(key, path, object.ReasonChild, "first name %q after %q", sub.first, after)
			}
		}
		if i == 0 {
			facts.first = sub.first
		}
		after = child.Last
		facts.height = max(facts.height, sub.height)
		facts.partial = facts.partial || sub.partial
		v.add(&facts, treeKey(id), path, sub.files, sub.bytes)
	}
	return facts, nil
}

// leaf checks a node with entries.
func (v *Verifier) leaf(ctx context.Context, id object.ID, node *object.Tree, path string, depth int) (treeFacts, error) {
	var facts treeFacts
	facts.first, facts.last = bounds(node)
	if len(node.Entries) > 0 {
		facts.height = 1
		if depth >= object.MaxDepth {
			v.Report(Problem{treeKey(id), path, ErrTooDeep})
			facts.height = object.MaxDepth + 1 // too deep wherever it is
			facts.partial = true
			return facts, nil
		}
	}
	for i := range node.Entries {
		e := &node.Entries[i]
		files, bytes := totals(e)
		v.add(&facts, treeKey(id), path, files, bytes)
		switch {
		case e.Type == object.TypeDir:
			at := Join(path, e.Name)
			sub, err := v.root(ctx, e.Content.ID, treeKey(id), at, depth+1)
			if err != nil {
				return facts, err
			}
			if !sub.partial && (sub.files != e.Files || sub.bytes != e.Size) {
				v.format(treeKey(id), at, ReasonTotals, "%d files and %d bytes, below it are %d and %d", e.Files, e.Size, sub.files, sub.bytes)
			}
			facts.height = max(facts.height, min(sub.height+1, object.MaxDepth+1))
		case !e.Content.IsZero():
			if err := v.content(ctx, treeKey(id), e, Join(path, e.Name)); err != nil {
				return facts, err
			}
		}
	}
	return facts, nil
}

// add adds to the totals of a node.
func (v *Verifier) add(facts *treeFacts, key object.Key, path string, files, bytes uint64) {
	var overFiles, overBytes uint64
	facts.files, overFiles = bits.Add64(facts.files, files, 0)
	facts.bytes, overBytes = bits.Add64(facts.bytes, bytes, 0)
	if overFiles+overBytes > 0 {
		v.format(key, path, ReasonTotals, "totals beyond 2^64")
	}
}

// failed turns an error of reading an object into a problem; others are
// returned.
func (v *Verifier) failed(ctx context.Context, key object.Key, path string, err error) error {
	if ctx.Err() == nil && (errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrCorrupt) || errors.Is(err, object.ErrNewerFormat)) {
		v.Report(Problem{key, path, err})
		return nil
	}
	return &PathError{path, err}
}

func (v *Verifier) format(key object.Key, path string, reason object.Reason, format string, args ...any) {
	v.Report(Problem{key, path, &object.FormatError{Kind: key.Kind, Reason: reason, Err: fmt.Errorf(format, args...)}})
}
