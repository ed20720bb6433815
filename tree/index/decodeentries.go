package index

import (
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// roomSize is how many entries are made room for at once: not all, or the
// garbage collector would go through, and so claim, memory that is yet unused.
const roomSize = 16 * blockSize

// fresh reads the n entries of a new directory.
func (r *decoder) fresh(d *Dir, n uint64) error {
	if n > r.entries {
		return errCounts
	}
	r.x.entries += int(n)
	at := len(r.blocks)
	last := ""
	for left := int(n); left > 0; {
		block := r.block(min(left, blockSize))
		for i := range block {
			e := &block[i]
			if err := r.one(d, e, last); err != nil {
				return err
			}
			if e.Type == 0 {
				return errCanonical
			}
			last = e.Name
		}
		r.blocks = append(r.blocks, block)
		left -= len(block)
	}
	d.entries = list{blocks: r.blocks[at:len(r.blocks):len(r.blocks)], n: int(n)}
	return nil
}

// block returns room for n entries, which are counted as read.
func (r *decoder) block(n int) []Entry {
	if len(r.room) < n {
		r.room = make([]Entry, min(r.entries, roomSize))
	}
	block := r.room[:n:n]
	r.room = r.room[n:]
	r.entries -= uint64(n)
	return block
}

// one reads one entry's record, which comes after the name last.
func (r *decoder) one(d *Dir, e *Entry, last string) error {
	if err := r.begin(); err != nil {
		return err
	}
	if !r.entry(e, &r.x.arena) {
		return fmt.Errorf("entry %q: %w", join(d.Path(), e.Name), errCanonical)
	}
	if err := r.used(e.stringSize()); err != nil {
		return err
	}
	if e.Name <= last {
		return fmt.Errorf("entry %q: %w", join(d.Path(), e.Name), errCanonical)
	}
	if err := object.CheckName(e.Name); err != nil {
		return err
	}
	if e.Type == 0 {
		return nil
	}
	if err := checkEntry(e); err != nil {
		return fmt.Errorf("entry %q: %w", join(d.Path(), e.Name), err)
	}
	return nil
}

// lose reads the n names of sub-directories that the base has and the index
// has not, or has made anew.
func (r *decoder) lose(d *Dir, n uint64) error {
	last := ""
	for range n {
		if err := r.begin(); err != nil {
			return err
		}
		name := r.x.arena.keepBytes(r.name())
		if r.bad || name <= last {
			return errCanonical
		}
		if err := r.used(len(name)); err != nil {
			return err
		}
		i, ok := d.findSub(name)
		if !ok {
			return fmt.Errorf("removal of directory %q, which the base does not have", join(d.Path(), name))
		}
		r.x.cutSub(d, i)
		last = name
	}
	return nil
}

// edit reads the records of n entries that differ from the base.
func (r *decoder) edit(d *Dir, n uint64) error {
	last := ""
	for range n {
		var e Entry
		if err := r.one(d, &e, last); err != nil {
			return err
		}
		last = e.Name
		exists := d.entries.get(e.Name) != nil
		r.x.track(d, e.Name, exists)
		switch {
		case e.Type == 0 && !exists:
			return fmt.Errorf("removal of entry %q, which the base does not have", join(d.Path(), e.Name))
		case e.Type == 0:
			d.entries.remove(e.Name)
			r.x.entries--
		case d.Subdir(e.Name) != nil:
			return fmt.Errorf("%q is there twice", join(d.Path(), e.Name))
		default:
			d.entries.put(e)
			if !exists {
				r.x.entries++
			}
		}
	}
	return nil
}
