package object

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
)

// linkSet collects the links of a node, at most MaxLinks, in the order of their first use. It is a
// hash table with linear probing, never more than half full.
type linkSet struct {
	raw   []byte               // the links as they are encoded
	slots [2 * MaxLinks]uint16 // positions of links, counted from 1; 0: free
}

// linkSeed is random, so that an attacker cannot prepare IDs with equal slots.
var linkSeed = rand.Uint64() | 1

var linkSets = sync.Pool{New: func() any { return new(linkSet) }}

// getLinkSet returns an empty set. The caller frees it.
func getLinkSet() *linkSet { return linkSets.Get().(*linkSet) }

func (s *linkSet) free() {
	s.reset()
	linkSets.Put(s)
}

func (s *linkSet) reset() {
	for 0 < s.len() && s.len() <= 16 { // clearing all slots takes longer
		s.dropLast()
	}
	if len(s.raw) > 0 {
		s.raw = s.raw[:0]
		clear(s.slots[:])
	}
}

func (s *linkSet) len() int { return len(s.raw) / linkSize }

// addLink adds key, unless the set has it, and returns its position, counted from 1.
func (s *linkSet) addLink(key Key) uint16 {
	slot := s.findSlot(key)
	if s.slots[slot] == 0 {
		s.raw = append(s.raw, byte(key.Kind))
		s.raw = append(s.raw, key.ID[:]...)
		s.slots[slot] = uint16(s.len())
	}
	return s.slots[slot]
}

// dropLast removes the link that was added last.
func (s *linkSet) dropLast() {
	s.slots[s.findSlot(s.linkAt(s.len()))] = 0
	s.raw = s.raw[:len(s.raw)-linkSize]
}

func (s *linkSet) linkAt(pos int) Key {
	raw := s.raw[(pos-1)*linkSize : pos*linkSize]
	return Key{Kind(raw[0]), ID(raw[1:])}
}

// findSlot returns the slot of key, or the free slot to add it.
func (s *linkSet) findSlot(key Key) uint64 {
	const shift, mask = 64 - 11, uint64(len(s.slots)) - 1
	slot := binary.LittleEndian.Uint64(key.ID[:]) * linkSeed >> shift
	for s.slots[slot] != 0 && s.linkAt(int(s.slots[slot])) != key {
		slot = (slot + 1) & mask
	}
	return slot
}
