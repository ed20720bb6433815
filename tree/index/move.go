package index

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// Move moves what is at from, an entry or a directory with all below it, to
// the path to, in place of what is there. Missing directories above are made,
// as [Index.Set] does. Stat data and cached trees of what is moved stay.
// Conflicts and skipped paths at both paths and below them are cleared. Errors
// are [*PathError], change nothing, and match [fs.ErrNotExist] if there is
// nothing at from.
func (x *Index) Move(from, to string) error {
	for _, path := range []string{from, to} {
		if err := checkPath(path); err != nil {
			return err
		}
	}
	dir, name := split(from)
	d := x.Dir(dir)
	if d == nil || d.entries.get(name) == nil && d.Subdir(name) == nil {
		return &PathError{from, fs.ErrNotExist}
	}
	switch {
	case from == to:
		return nil
	case below(to, from):
		return &PathError{to, fmt.Errorf("lies in %q, which is to be moved there", from)}
	case below(from, to):
		return &PathError{to, fmt.Errorf("holds %q, which is to be moved there", from)}
	}
	if e := d.entries.get(name); e != nil {
		moved := *e
		x.Remove(from)
		return x.Set(to, moved)
	}
	sub := d.Subdir(name)
	if strings.Count(to, "/")+1+sub.height() > object.MaxDepth {
		return &PathError{to, errors.New("too deep for what is to be moved there")}
	}
	x.Remove(from)
	x.Remove(to)
	x.attach(to, sub)
	return nil
}

// height returns how deep paths below d go: 0 if d is empty.
func (d *Dir) height() int {
	height := 0
	levels := []*Dir{d}
	for ; len(levels) > 0; height++ {
		var next []*Dir
		entries := false
		for _, l := range levels {
			next = append(next, l.subs...)
			entries = entries || l.entries.n > 0
		}
		if len(next) == 0 && !entries {
			break
		}
		levels = next
	}
	return height
}

// attach puts a directory that was removed at a path where there is nothing.
func (x *Index) attach(path string, sub *Dir) {
	dir, name := split(path)
	d := x.makeDirs(dir)
	i, _ := d.findSub(name)
	sub.name, sub.parent = x.arena.keep(name), d
	for s := range sub.recorded(true) {
		s.dirty, s.inBase, s.edits, s.lost = true, false, nil, nil
		x.dirs++
		x.entries += s.entries.n
	}
	d.subs = slices.Insert(d.subs, i, sub)
	x.touch(d)
	d.forget()
}
