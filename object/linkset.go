package object

import "sync"

// linkSet collects a node's links, unique and in first-use order.
type linkSet struct {
	pos map[Key]uint16
	raw []byte // as they are encoded
}

var linkSets = sync.Pool{New: func() any { return &linkSet{pos: make(map[Key]uint16)} }}

// getLinkSet returns an empty set. The caller frees it.
func getLinkSet() *linkSet { return linkSets.Get().(*linkSet) }

func (s *linkSet) free() {
	s.reset()
	linkSets.Put(s)
}

func (s *linkSet) reset() {
	clear(s.pos)
	s.raw = s.raw[:0]
}

func (s *linkSet) len() int { return len(s.raw) / linkSize }

// add returns the position of key, counted from 1, after adding it if it was
// not there.
func (s *linkSet) add(key Key) uint16 {
	if p, ok := s.pos[key]; ok {
		return p
	}
	s.raw = append(s.raw, byte(key.Kind))
	s.raw = append(s.raw, key.ID[:]...)
	p := uint16(s.len())
	s.pos[key] = p
	return p
}

// drop removes the link that was added last.
func (s *linkSet) drop() {
	last := s.raw[len(s.raw)-linkSize:]
	delete(s.pos, Key{Kind(last[0]), ID(last[1:])})
	s.raw = s.raw[:len(s.raw)-linkSize]
}
