package tree

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// ReasonTotals means that a directory's entry has other totals than the
// directory.
const ReasonTotals object.Reason = "bad-totals"

// Problem is a problem that [Verifier] found.
type Problem struct {
	// Key is the missing, damaged or malformed object. If two objects do not
	// fit together, it is the one that refers to the other: the other may suit
	// other references.
	Key  object.Key
	Path string // a path that leads to it; Key has the directory of a wrong entry
	Err  error  // matches object.ErrNotFound, object.ErrCorrupt, object.ErrNewerFormat or ErrTooDeep, or is an [*object.AwayError]
}

// Sizer returns the sizes of objects without reading them.
type Sizer interface {
	// StoredSize returns an object's size and the size of its stored value, in
	// bytes.
	StoredSize(ctx context.Context, key object.Key) (raw, stored int64, err error)
}

// Verifier checks the structure of directories and of everything below them.
// Every node must be readable and well formed. The nodes of a list must end at
// the right places and fit together in levels, order, last names and lengths.
// Totals must be right, and nothing may be nested too deep. All chunks must
// exist and, if Sizes is set, have the sizes in their lists. It does not read
// chunks.
//
// A Verifier needs about 150 bytes of memory for each node. It visits no node
// twice, so its time depends on the number of different objects, not of paths.
// It is not safe for concurrent use. It recurses instead of using package graph,
// because each node is compared with the entry and the path that lead to it.
type Verifier struct {
	Reader object.Reader
	Sizes  Sizer         // may be nil
	Report func(Problem) // called for each problem, as it is found

	// Records list contents that may be missing.
	Records *record.Effects

	trees     map[object.ID]treeFacts
	manifests map[object.ID]manifestFacts
	chunks    []chunkUse
}

// treeFacts are the remembered properties of a tree node.
type treeFacts struct {
	first, last string
	files       uint64
	bytes       uint64
	height      uint16 // directories below each other in it
	level       int8   // -1: could not be read
	only        bool   // an inner node with one child
	partial     bool   // a part of the list cannot be read, so totals are unknown
}

// chunkUse is a chunk to check.
type chunkUse struct {
	key  object.Key
	by   object.Key // the node that links to it
	size uint64
	path string
}

// chunkBatch is the number of chunks checked at once.
const chunkBatch = 1024

// Verify checks the directory with the given root node. Problems go to Report.
// An error means that ctx ended, or that reading failed for another reason
// than the objects. It returns the directory's totals, computed from its
// entries.
func (v *Verifier) Verify(ctx context.Context, root object.ID) (Info, error) {
	if v.trees == nil {
		v.trees = make(map[object.ID]treeFacts)
		v.manifests = make(map[object.ID]manifestFacts)
	}
	facts, err := v.checkRoot(ctx, root, treeKey(root), "", 0)
	if err == nil {
		err = v.checkChunks(ctx)
	}
	return Info{ID: root, Files: facts.files, Bytes: facts.bytes}, err
}

// checkRoot checks the root node of a directory at path. By is the node that refers
// to it.
func (v *Verifier) checkRoot(ctx context.Context, id object.ID, by object.Key, path string, depth int) (treeFacts, error) {
	facts, err := v.checkTree(ctx, id, path, depth)
	if err == nil && facts.only {
		v.reportFormat(by, path, object.ReasonRoot, "an only child below level %d", facts.level)
	}
	return facts, err
}

// checkTree checks a node and everything below it. Depth is the number of names in
// path.
func (v *Verifier) checkTree(ctx context.Context, id object.ID, path string, depth int) (treeFacts, error) {
	facts, seen := v.trees[id]
	if !seen {
		node, err := readChecked(ctx, v, treeKey(id), path, object.DecodeTree)
		if err != nil {
			facts = treeFacts{level: -1, partial: true}
			v.trees[id] = facts
			return facts, v.reportError(ctx, treeKey(id), path, err)
		}
		if node.Level == 0 {
			facts, err = v.checkLeaf(ctx, id, node, path, depth)
		} else {
			facts, err = v.checkInner(ctx, id, node, path, depth)
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

// readChecked reads and decodes a node. If the node should have been split, it
// reports a problem and continues.
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

// checkInner checks a node with children.
func (v *Verifier) checkInner(ctx context.Context, id object.ID, node *object.Tree, path string, depth int) (treeFacts, error) {
	facts := treeFacts{level: int8(node.Level), only: len(node.Children) == 1}
	_, facts.last = node.Bounds()
	after := ""
	for i, child := range node.Children {
		sub, err := v.checkTree(ctx, child.ID, path, depth)
		if err != nil {
			return facts, err
		}
		if sub.level >= 0 {
			if err := checkFits(node.Level, child, after, sub); err != nil {
				v.reportFormat(treeKey(id), path, object.ReasonChild, "%w", err)
			}
		}
		if i == 0 {
			facts.first = sub.first
		}
		after = child.Last
		facts.height = max(facts.height, sub.height)
		facts.partial = facts.partial || sub.partial
		v.addTotals(&facts, treeKey(id), path, sub.files, sub.bytes)
	}

	return facts, nil
}

// checkLeaf checks a node with entries.
func (v *Verifier) checkLeaf(ctx context.Context, id object.ID, node *object.Tree, path string, depth int) (treeFacts, error) {
	var facts treeFacts
	facts.first, facts.last = node.Bounds()
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
		files, bytes := totalsOf(e)
		v.addTotals(&facts, treeKey(id), path, files, bytes)
		switch {
		case e.Type == object.TypeDir:
			at := Join(path, e.Name)
			sub, err := v.checkRoot(ctx, e.Content.ID, treeKey(id), at, depth+1)
			if err != nil {
				return facts, err
			}
			if !sub.partial && (sub.files != e.Files || sub.bytes != e.Size) {
				v.reportFormat(treeKey(id), at, ReasonTotals, "%d files and %d bytes, below it are %d and %d", e.Files, e.Size, sub.files, sub.bytes)
			}
			facts.height = max(facts.height, min(sub.height+1, object.MaxDepth+1))
		case !e.Content.IsZero():
			if err := v.checkContent(ctx, treeKey(id), e, Join(path, e.Name)); err != nil {
				return facts, err
			}
		}
	}

	return facts, nil
}

// addTotals adds to the totals of a node.
func (v *Verifier) addTotals(facts *treeFacts, key object.Key, path string, files, bytes uint64) {
	var overFiles, overBytes uint64
	facts.files, overFiles = bits.Add64(facts.files, files, 0)
	facts.bytes, overBytes = bits.Add64(facts.bytes, bytes, 0)
	if overFiles+overBytes > 0 {
		v.reportFormat(key, path, ReasonTotals, "totals beyond 2^64")
	}
}

// reportError reports an error about an object as a problem. It returns any other
// error.
func (v *Verifier) reportError(ctx context.Context, key object.Key, path string, err error) error {
	if ctx.Err() == nil && (object.IsUnreadable(err) || object.IsAway(err) || errors.Is(err, object.ErrNewerFormat)) {
		v.Report(Problem{key, path, err})
		return nil
	}
	return &PathError{path, err}
}

func (v *Verifier) reportFormat(key object.Key, path string, reason object.Reason, format string, args ...any) {
	v.Report(Problem{key, path, &object.FormatError{Kind: key.Kind, Reason: reason, Err: fmt.Errorf(format, args...)}})
}

// manifestFacts are the remembered properties of a manifest node.
type manifestFacts struct {
	bytes uint64
	level int8 // -1: could not be read
	only  bool // a node with one item
}

// checkContent checks the content of a file that is not inline. By is the node with
// its entry.
func (v *Verifier) checkContent(ctx context.Context, by object.Key, e *object.Entry, path string) error {
	if _, purged := v.Records.Purged(e.Content); purged {
		return nil
	}
	if e.Content.Kind == object.KindChunk {
		return v.queueChunk(ctx, e.Content.ID, by, e.Size, path)
	}

	facts, err := v.checkManifest(ctx, e.Content.ID, path)
	if err != nil {
		return err
	}

	switch {
	case facts.level < 0:
	case facts.only:
		v.reportFormat(by, path, object.ReasonRoot, "one item")
	case facts.bytes != e.Size:
		v.reportFormat(by, path, object.ReasonSize, "%d bytes, want %d", facts.bytes, e.Size)
	}

	return nil
}

// checkManifest checks a node and everything below it.
func (v *Verifier) checkManifest(ctx context.Context, id object.ID, path string) (manifestFacts, error) {
	if facts, seen := v.manifests[id]; seen {
		return facts, nil
	}

	key := object.Key{Kind: object.KindManifest, ID: id}
	node, err := readChecked(ctx, v, key, path, object.DecodeManifest)
	if err != nil {
		facts := manifestFacts{level: -1}
		v.manifests[id] = facts
		return facts, v.reportError(ctx, key, path, err)
	}

	facts := manifestFacts{bytes: node.Size(), level: int8(node.Level), only: len(node.Chunks)+len(node.Children) == 1}
	for _, c := range node.Chunks {
		if err := v.queueChunk(ctx, c.ID, key, uint64(c.Size), path); err != nil {
			return facts, err
		}
	}

	start := uint64(0)
	for _, c := range node.Children {
		if _, purged := v.Records.Purged(object.Key{Kind: object.KindManifest, ID: c.ID}); purged {
			start = c.End
			continue
		}
		sub, err := v.checkManifest(ctx, c.ID, path)
		if err != nil {
			return facts, err
		}
		switch {
		case sub.level < 0:
		case sub.level != facts.level-1:
			v.reportFormat(key, path, object.ReasonChild, "level %d below level %d", sub.level, facts.level)
		case sub.bytes != c.End-start:
			v.reportFormat(key, path, object.ReasonSize, "%d bytes, want %d", sub.bytes, c.End-start)
		}
		start = c.End
	}

	v.manifests[id] = facts
	return facts, nil
}

// queueChunk adds a chunk to the next batch. The node by claims that it has size
// bytes.
func (v *Verifier) queueChunk(ctx context.Context, id object.ID, by object.Key, size uint64, path string) error {
	key := object.Key{Kind: object.KindChunk, ID: id}
	if _, purged := v.Records.Purged(key); purged {
		return nil
	}
	v.chunks = append(v.chunks, chunkUse{key, by, size, path})
	if len(v.chunks) < chunkBatch {
		return nil
	}
	return v.checkChunks(ctx)
}

// checkChunks checks the chunks of the batch.
func (v *Verifier) checkChunks(ctx context.Context) error {
	uses := v.chunks
	v.chunks = v.chunks[:0]
	keys := make([]object.Key, len(uses))
	for i, c := range uses {
		keys[i] = c.key
	}

	list, err := v.Reader.Missing(ctx, keys)
	if err != nil && len(uses) > 1 {
		return v.checkSingly(ctx, uses)
	}
	if err != nil {
		return v.reportError(ctx, uses[0].key, uses[0].path, err)
	}

	missing := make(map[object.Key]bool, len(list))
	for _, key := range list {
		missing[key] = true
	}

	for _, c := range uses {
		if missing[c.key] {
			v.Report(Problem{c.key, c.path, &object.AbsentError{Key: c.key}})
			continue
		}
		if v.Sizes == nil {
			continue
		}
		size, _, err := v.Sizes.StoredSize(ctx, c.key)
		if err != nil {
			if err := v.reportError(ctx, c.key, c.path, err); err != nil {
				return err
			}
		} else if size < 0 || size > math.MaxUint32 || uint64(size) != c.size {
			v.reportFormat(c.by, c.path, object.ReasonSize, "%d bytes, want %d", size, c.size)
		}
	}

	return nil
}

// checkSingly checks chunks one by one, because the lookup of one of them
// fails.
func (v *Verifier) checkSingly(ctx context.Context, uses []chunkUse) error {
	for _, c := range uses {
		v.chunks = []chunkUse{c}
		if err := v.checkChunks(ctx); err != nil {
			return err
		}
	}
	return nil
}
