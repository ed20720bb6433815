package tree

import (
	"context"
	"math"

	"github.com/kist-vcs/kist/object"
)

// manifestFacts are the remembered properties of a manifest node.
type manifestFacts struct {
	bytes uint64
	level int8 // -1: could not be read
	only  bool // a node with one item
}

// content checks the content of a file that is not inline. By is the node with
// its entry.
func (v *Verifier) content(ctx context.Context, by object.Key, e *object.Entry, path string) error {
	if _, purged := v.Records.Purged(e.Content); purged {
		return nil
	}
	if e.Content.Kind == object.KindChunk {
		return v.chunk(ctx, e.Content.ID, by, e.Size, path)
	}

	facts, err := v.manifest(ctx, e.Content.ID, path)
	if err != nil {
		return err
	}

	switch {
	case facts.level < 0:
	case facts.only:
		v.format(by, path, object.ReasonRoot, "one item")
	case facts.bytes != e.Size:
		v.format(by, path, object.ReasonSize, "%d bytes, want %d", facts.bytes, e.Size)
	}

	return nil
}

// manifest checks a node and everything below it.
func (v *Verifier) manifest(ctx context.Context, id object.ID, path string) (manifestFacts, error) {
	if facts, seen := v.manifests[id]; seen {
		return facts, nil
	}

	key := object.Key{Kind: object.KindManifest, ID: id}
	node, err := readChecked(ctx, v, key, path, object.DecodeManifest)
	if err != nil {
		facts := manifestFacts{level: -1}
		v.manifests[id] = facts
		return facts, v.failed(ctx, key, path, err)
	}

	facts := manifestFacts{bytes: node.Size(), level: int8(node.Level), only: len(node.Chunks)+len(node.Children) == 1}
	for _, c := range node.Chunks {
		if err := v.chunk(ctx, c.ID, key, uint64(c.Size), path); err != nil {
			return facts, err
		}
	}

	start := uint64(0)
	for _, c := range node.Children {
		if _, purged := v.Records.Purged(object.Key{Kind: object.KindManifest, ID: c.ID}); purged {
			start = c.End
			continue
		}
		sub, err := v.manifest(ctx, c.ID, path)
		if err != nil {
			return facts, err
		}
		switch {
		case sub.level < 0:
		case sub.level != facts.level-1:
			v.format(key, path, object.ReasonChild, "level %d below level %d", sub.level, facts.level)
		case sub.bytes != c.End-start:
			v.format(key, path, object.ReasonSize, "%d bytes, want %d", sub.bytes, c.End-start)
		}
		start = c.End
	}

	v.manifests[id] = facts
	return facts, nil
}

// chunk adds a chunk to the next batch. The node by claims that it has size
// bytes.
func (v *Verifier) chunk(ctx context.Context, id object.ID, by object.Key, size uint64, path string) error {
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
		return v.failed(ctx, uses[0].key, uses[0].path, err)
	}

	missing := make(map[object.Key]bool, len(list))
	for _, key := range list {
		missing[key] = true
	}

	for _, c := range uses {
		if missing[c.key] {
			v.Report(Problem{c.key, c.path, &object.NotFoundError{Key: c.key}})
			continue
		}
		if v.Sizes == nil {
			continue
		}
		size, _, err := v.Sizes.StoredSize(ctx, c.key)
		if err != nil {
			if err := v.failed(ctx, c.key, c.path, err); err != nil {
				return err
			}
		} else if size < 0 || size > math.MaxUint32 || uint64(size) != c.size {
			v.format(c.by, c.path, object.ReasonSize, "%d bytes, want %d", size, c.size)
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
