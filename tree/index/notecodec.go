package index

import (
	"encoding/binary"
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// maxPathSize is the largest number of bytes in a path.
const maxPathSize = object.MaxDepth * (object.MaxNameSize + 1)

// The two bits for each side in a conflict's record.
const (
	sideNone  = 0
	sideEntry = 1
	sideDir   = 2
)

// sides returns the fields for base, ours and theirs.
func (c *Conflict) sides() [3]**object.Entry {
	return [3]**object.Entry{&c.Base, &c.Ours, &c.Theirs}
}

// appendConflict appends the record of a conflict.
func appendConflict(dst []byte, c *Conflict) []byte {
	dst = append(appendText(dst, c.Path), 0)
	which := len(dst) - 1
	for i, side := range c.sides() {
		o := *side
		switch {
		case o == nil:
		case o.Type == object.TypeDir:
			dst[which] |= sideDir << (2 * i)
			dst = binary.LittleEndian.AppendUint16(dst, o.Mode)
			dst = binary.AppendUvarint(dst, o.Size)
			dst = binary.AppendUvarint(dst, o.Files)
			dst = appendTime(dst, o.MTime)
			dst = append(dst, o.Content.ID[:]...)
		default:
			dst[which] |= sideEntry << (2 * i)
			e := NewEntry(*o, Stat{})
			e.Name = ""
			dst = appendEntry(dst, &e)
		}
	}
	return dst
}

// conflicts reads n conflicts.
func (b *blockReader) conflicts(n uint64) ([]Conflict, error) {
	var list []Conflict
	for range n {
		if err := b.begin(); err != nil {
			return nil, err
		}
		path := string(b.text(maxPathSize))
		if err := checkPath(path); err != nil {
			return nil, err
		}
		if len(list) > 0 && comparePaths(list[len(list)-1].Path, path) >= 0 {
			return nil, fmt.Errorf("conflict %q: %w", path, errCanonical)
		}
		c := Conflict{Path: path}
		which := b.u8()
		for i, side := range c.sides() {
			o, err := b.side(which>>(2*i)&3, path)
			if err != nil {
				return nil, fmt.Errorf("conflict %q: %w", path, err)
			}
			*side = o
		}
		if b.bad || which>>6 != 0 {
			return nil, fmt.Errorf("conflict %q: %w", path, errCanonical)
		}
		list = append(list, c)
	}
	return list, nil
}

// side reads one side of a conflict.
func (b *blockReader) side(which byte, path string) (*object.Entry, error) {
	var o object.Entry
	switch which {
	case sideNone:
		return nil, nil
	case sideEntry:
		var e Entry
		var own arena
		if !b.entry(&e, &own) || e.Name != "" || e.Type == object.TypeDir || e.Stat != (Stat{}) {
			return nil, errCanonical
		}
		o = e.Object()
	case sideDir:
		o = object.Entry{Type: object.TypeDir, Mode: b.u16(), Size: b.uvarint(), Files: b.uvarint(), MTime: b.time()}
		o.Content.Kind = object.KindTree
		b.id(o.Content.ID[:])
		if b.bad {
			return nil, errCanonical
		}
	default:
		return nil, errCanonical
	}
	_, o.Name = split(path)
	return &o, checkSide(&o)
}

// skippedPaths reads n skipped paths.
func (b *blockReader) skippedPaths(n uint64) ([]skipped, error) {
	var list []skipped
	for range n {
		if err := b.begin(); err != nil {
			return nil, err
		}
		s := skipped{Path: string(b.text(maxPathSize)), Reason: string(b.text(maxReasonSize))}
		if err := checkSkippedPath(s.Path); err != nil {
			return nil, err
		}
		if b.bad || s.Reason != cleanReason(s.Reason) || len(list) > 0 && comparePaths(list[len(list)-1].Path, s.Path) >= 0 {
			return nil, fmt.Errorf("skipped path %q: %w", s.Path, errCanonical)
		}
		list = append(list, s)
	}
	return list, nil
}
