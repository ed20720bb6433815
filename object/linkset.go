package object

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
)

// linkSet collects a node's links, at most MaxLinks, unique and in first-use
// order. It is a hash table with linear probing, never more than half full.
type linkSet struct {
	raw   []byte               // the links as they are encoded
	slots [2 * MaxLinks]uint16 // positions of links, counted from 1; 0: free
}

// linkSeed makes it impossible to prepare IDs that fall into the same slots.
var linkSeed = rand.Uint64() | 1

var linkSets = sync.Pool{New: func() any { return new(linkSet) }}

// getLinkSet returns an empty set. The caller frees it.
func getLinkSet() *linkSet { return linkSets.Get().(*linkSet) }

func (s *linkSet) free() {
	s.reset()
	linkSets.Put(s)
}

func (s *linkSet) reset() {
	if len(s.raw) > 0 {
		s.raw = s.raw[:0]
		clear(s.slots[:])
	}
}

func (s *linkSet) len() int { return len(s.raw) / linkSize }

// add returns the position of key, counted from 1, after adding it if it was
// not there.
func (s *linkSet) add(key Key) uint16 {
	slot := s.find(key)
	if s.slots[slot] == 0 {
		s.raw = append(s.raw, byte(key.Kind))
		s.raw = append(s.raw, key.ID[:]...)
		s.slots[slot] = uint16(s.len())
	}
	return s.slots[slot]
}

// drop removes the link that was added last.
func (s *linkSet) drop() {
	s.slots[s.find(s.key(s.len()))] = 0
	s.raw = s.raw[:len(s.raw)-linkSize]
}

func (s *linkSet) key(pos int) Key {
	raw := s.raw[(pos-1)*linkSize : pos*linkSize]
	return Key{Kind(raw[0]), ID(raw[1:])}
}

// find returns the slot of key, or the free one where it belongs.
func (s *linkSet) find(key Key) uint64 {
	const shift, mask = 64 - 11, uint64(len(s.slots)) - 1
	slot := binary.LittleEndian.Uint64(key.ID[:]) * linkSeed >> shift
	for s.slots[slot] != 0 && s.key(int(s.slots[slot])) != key {
		slot = (slot + 1) & mask
	}
	return slot
}

// Check decodes an object of any kind and checks everything that can be
// checked without other objects. Unlike the decoders it also checks that a list
// node does not go on after a boundary. Of a chunk there is only its size.
// Errors are [*FormatError].
func Check(kind Kind, data []byte) error {
	switch kind {
	case KindChunk:
		if len(data) == 0 || len(data) > MaxChunkSize {
			return &FormatError{kind, ReasonChunk, fmt.Errorf("%d bytes", len(data))}
		}
		return nil
	case KindManifest:
		m, err := DecodeManifest(data)
		if err != nil {
			return err
		}
		return m.checkSplit()
	case KindTree:
		t, err := DecodeTree(data)
		if err != nil {
			return err
		}
		return t.checkSplit()
	case KindCommit:
		_, err := DecodeCommit(data)
		return err
	case KindTag:
		_, err := DecodeTag(data)
		return err
	}
	return &FormatError{kind, ReasonKind, nil}
}

func (t *Tree) checkSplit() error {
	for i := MinListItems - 1; i < len(t.Entries)-1; i++ {
		if isBoundary(KindTree, 0, t.Entries[i].Name, ID{}) {
			return &FormatError{KindTree, ReasonSplit, fmt.Errorf("after %q", t.Entries[i].Name)}
		}
	}
	for i := MinListItems - 1; i < len(t.Children)-1; i++ {
		if isBoundary(KindTree, t.Level, t.Children[i].Last, ID{}) {
			return &FormatError{KindTree, ReasonSplit, fmt.Errorf("after %q", t.Children[i].Last)}
		}
	}
	return nil
}

func (m *Manifest) checkSplit() error {
	for i := MinListItems - 1; i < len(m.Chunks)-1; i++ {
		if isBoundary(KindManifest, 0, "", m.Chunks[i].ID) {
			return &FormatError{KindManifest, ReasonSplit, fmt.Errorf("after chunk %d", i)}
		}
	}
	for i := MinListItems - 1; i < len(m.Children)-1; i++ {
		if isBoundary(KindManifest, m.Level, "", m.Children[i].ID) {
			return &FormatError{KindManifest, ReasonSplit, fmt.Errorf("after child %d", i)}
		}
	}
	return nil
}

// ReadTree reads and decodes a tree node. Errors say which, and match what
// [Reader.Get] and [DecodeTree] return.
func ReadTree(ctx context.Context, r Reader, id ID) (*Tree, error) {
	return readNode(ctx, r, Key{KindTree, id}, DecodeTree)
}

// ReadManifest reads and decodes a manifest node, like [ReadTree].
func ReadManifest(ctx context.Context, r Reader, id ID) (*Manifest, error) {
	return readNode(ctx, r, Key{KindManifest, id}, DecodeManifest)
}

// A Reader may be a LossKeeper: then it has objects whose loss was accepted.
type LossKeeper interface {
	// IsLost reports whether the loss of an object was accepted, and the object
	// is missing still.
	IsLost(key Key) bool
}

// IsLost reports whether r is a [LossKeeper] and the loss of an object was accepted.
func IsLost(r Reader, key Key) bool {
	losses, ok := r.(LossKeeper)
	return ok && losses.IsLost(key)
}

// A Reader may be Lenient: folders and history are then read without the nodes
// that are damaged or missing.
type Lenient interface {
	// PassOver reports whether an object that cannot be read because of err is left
	// out. Of a tree node, path is that of its folder, and of a content that of its
	// file. It may be empty.
	PassOver(path string, key Key, err error) bool
}

// PassOver calls the PassOver of r, and returns false if r is not [Lenient].
func PassOver(r Reader, path string, key Key, err error) bool {
	l, ok := r.(Lenient)
	return ok && err != nil && l.PassOver(path, key, err)
}

// ReadCommit reads and decodes a commit, like [ReadTree]. If r is a [LossKeeper],
// the commit is without those parents whose loss was accepted, so that history
// can be followed.
func ReadCommit(ctx context.Context, r Reader, id ID) (*Commit, error) {
	c, err := readNode(ctx, r, Key{KindCommit, id}, DecodeCommit)
	if err == nil {
		c.Parents = slices.DeleteFunc(c.Parents, func(parent ID) bool { return IsLost(r, Key{KindCommit, parent}) })
	}
	return c, err
}

// ReadTag reads and decodes a tag, like [ReadTree].
func ReadTag(ctx context.Context, r Reader, id ID) (*Tag, error) {
	return readNode(ctx, r, Key{KindTag, id}, DecodeTag)
}

func readNode[T any](ctx context.Context, r Reader, key Key, decode func([]byte) (*T, error)) (*T, error) {
	data, err := r.Get(ctx, key)
	if errors.Is(err, ErrNotFound) && IsLost(r, key) {
		err = &NotFoundError{Key: key, Lost: true}
	}
	if err != nil {
		return nil, readError(key, err)
	}
	node, err := decode(data)
	if err != nil {
		return nil, readError(key, err)
	}
	return node, nil
}

func readError(key Key, err error) error { return fmt.Errorf("read %s: %w", key, err) }
