package object

import (
	"context"
	"crypto/sha256"
)

// splitter writes a chunked list: items come in at level 0, full nodes go out
// to the writer, and each is an item one level up. It is the one mechanism
// behind trees and manifests (docs/format/objects.md, "Chunked lists").
type splitter struct {
	w      Writer
	kind   Kind
	levels []*splitLevel
}

type splitLevel struct {
	node *listNode // being filled
	done int       // nodes written
	last ID        // of the node written last
}

// add adds an item at a level.
func (s *splitter) add(ctx context.Context, level int, it listItem) error {
	if level == len(s.levels) {
		if level == MaxLevel {
			return faultf(ReasonLevel, "more than %d levels", MaxLevel)
		}
		s.levels = append(s.levels, &splitLevel{node: getListNode(s.kind, uint8(level))})
	}
	node := s.levels[level].node
	fits, err := node.add(it)
	if err != nil {
		return err
	}
	if !fits {
		if err := s.flush(ctx, level); err != nil {
			return err
		}
		if err := node.mustAdd(it); err != nil {
			return err
		}
	}
	if node.count == MaxListItems || node.count >= MinListItems && isBoundary(s.kind, uint8(level), it.name, it.link.ID) {
		return s.flush(ctx, level)
	}
	return nil
}

// flush writes the node of a level and adds it to the level above.
func (s *splitter) flush(ctx context.Context, level int) error {
	l := s.levels[level]
	id, err := s.w.Put(ctx, s.kind, l.node.append(make([]byte, 0, l.node.size())))
	if err != nil {
		return err
	}
	parent := listItem{name: l.node.last, link: Key{s.kind, id}, size: l.node.sum}
	l.done++
	l.last = id
	l.node.reset()
	return s.add(ctx, level+1, parent)
}

// finish writes the remaining items and returns the root: the only node of the
// first level with just one node. An empty list has no root.
func (s *splitter) finish(ctx context.Context) (root ID, err error) {
	for level := 0; level < len(s.levels); level++ {
		l := s.levels[level]
		if l.node.count > 0 {
			if err := s.flush(ctx, level); err != nil {
				return ID{}, err
			}
		}
		if l.done == 1 {
			root = l.last
			break
		}
	}
	for _, l := range s.levels {
		l.node.free()
	}
	s.levels = nil
	return root, nil
}

// isBoundary reports whether a node may end after an item. Both kinds of lists
// take what stays the same when neighbours change: a tree's names, and the IDs
// in a manifest.
func isBoundary(kind Kind, level uint8, name string, id ID) bool {
	var buf [1 + MaxNameSize]byte
	buf[0] = level
	n := 1
	if kind == KindTree {
		n += copy(buf[1:], name)
	} else {
		n += copy(buf[1:], id[:])
	}
	sum := sha256.Sum256(buf[:n])
	return sum[0]%128 == 0
}
