package versions

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
)

// Life is the life of a file, as the history of one commit has it.
type Life struct {
	ID       object.ID
	Path     string    // now, or before it was removed
	Tip      Tip       // the history that it was found in
	Versions []Version // oldest first, with removals
}

// ErrAmbiguous is the error for digits with which the IDs of several files or contents begin.
var ErrAmbiguous = errors.New("several IDs begin so: more digits are needed")

// MinDigits is the least number of digits that name a file or a content.
const MinDigits = 4

// FileID returns the ID of the file that first appeared in a commit at a path.
func FileID(commit object.ID, path string) object.ID {
	return object.Sum(append(append([]byte("kist file\n"), commit[:]...), path...))
}

// Last returns the number of the newest version with content, or 0.
func (f *Life) Last() int {
	n := 0
	for i := range f.Versions {
		n = max(n, f.Versions[i].Number)
	}
	return n
}

// Version returns a version by its number. Negative numbers count from the end: -1 is
// the last one.
func (f *Life) Version(number int) (Version, bool) {
	if number < 0 {
		number += f.Last() + 1
	}
	// Numbers ascend from 1, and versions without a number lie between them.
	for i := max(0, number-1); number > 0 && i < len(f.Versions); i++ {
		if f.Versions[i].Number == number {
			return f.Versions[i], true
		}
	}
	return Version{}, false
}

// Removed reports whether the file does not exist at the end of its life.
func (f *Life) Removed() bool { return f.Versions[len(f.Versions)-1].Type == 0 }

// Created returns the time of the first change, in seconds since 1970.
func (f *Life) Created() int64 { return f.Versions[0].Time }

// Updated returns the time of the last change, in seconds since 1970.
func (f *Life) Updated() int64 { return f.Versions[len(f.Versions)-1].Time }

// sortChanges orders the changes of each path by chain and commit, for [Index.changeAt].
func (x *Index) sortChanges() {
	x.starts = make([]int32, x.paths.len()+1)
	for i := range x.changes.len() {
		x.starts[x.changes.at(i).path+1]++
	}
	for i := range x.paths.len() {
		x.starts[i+1] += x.starts[i]
	}
	x.byPath = make([]int32, x.changes.len())
	for i := range x.changes.len() {
		at := &x.starts[x.changes.at(i).path]
		x.byPath[*at] = i
		*at++
	}
	copy(x.starts[1:], x.starts) // each is now the start of the next path
	x.starts[0] = 0
	for path := range x.paths.len() {
		slices.SortStableFunc(x.changesAt(path), func(a, b int32) int { return cmp.Compare(x.chainOf(a), x.chainOf(b)) })
	}
}

// changesAt returns the changes of a path, by chain and commit.
func (x *Index) changesAt(path int32) []int32 { return x.byPath[x.starts[path]:x.starts[path+1]] }

func (x *Index) chainOf(change int32) int32 { return x.commits[x.changes.at(change).commit].chain }

// changeAt returns the number of the change behind the state of a path in a commit, or -1. The
// change may be a removal.
//
// Along a chain of first parents, only listed changes touch the path. So changeAt looks for the
// last one in the chain, and goes on where the chain began. A merge with the path from
// another parent leads to that parent.
func (x *Index) changeAt(commit, path int32) int32 {
	list := x.changesAt(path)
	for commit >= 0 {
		chain := x.commits[commit].chain
		n := sort.Search(len(list), func(i int) bool {
			other := x.chainOf(list[i])
			return other > chain || other == chain && x.changes.at(list[i]).commit > commit
		})
		if n == 0 || x.chainOf(list[n-1]) != chain {
			commit = x.commits[x.chains[chain]].firstParent()
			continue
		}
		c := x.changes.at(list[n-1])
		if c.same == 0 {
			return list[n-1]
		}
		commit = x.commits[c.commit].parents[c.same]
	}
	return -1
}

// LastChange returns the commit that changed a path last in the history of a commit. The
// path differs there from all parents, and may have been removed. LastChange returns zero if
// the index does not have the commit, or if its history never had the path.
func (x *Index) LastChange(of object.ID, path string) (id object.ID) {
	commit, known := x.commitNumbers[of]
	number, had := x.paths.number(path)
	if known && had {
		if change := x.changeAt(commit, number); change >= 0 {
			id = x.commits[x.changes.at(change).commit].id
		}
	}
	return id
}

// earlierChanges returns the changes that a change continues, one for each parent that has the
// file. The first change of a life continues none.
func (x *Index) earlierChanges(change int32) (list []int32) {
	c := x.changes.at(change)
	for _, parent := range x.commits[c.commit].parents {
		prev := x.changeAt(parent, c.path)
		if c.from >= 0 && (prev < 0 || x.changes.at(prev).isRemoval()) {
			prev = x.changeAt(parent, c.from)
		}
		if prev < 0 || slices.Contains(list, prev) {
			continue
		}
		if p := x.changes.at(prev); !p.isMoved() && p.isDir() == c.isDir() {
			list = append(list, prev)
		}
	}
	return list
}

// lifeChanges returns the changes that lead to a change, oldest first, with that one. The
// history of the first parent comes before that of the others. So the numbers of
// versions stay when a branch goes on.
func (x *Index) lifeChanges(ctx context.Context, change int32) (list []int32, err error) {
	read := func(i int32) (struct{}, []int32, error) {
		before := x.earlierChanges(i)
		slices.Reverse(before) // Fold takes the last one first
		return struct{}{}, before, nil
	}
	_, err = graph.Fold(ctx, map[int32]bool{}, change, read, func(i int32, _ struct{}) (bool, error) {
		list = append(list, i)
		return true, nil
	})
	return list, err
}

// fileOfLife returns the life that ends with a change in the history of a tip.
func (x *Index) fileOfLife(ctx context.Context, tip Tip, change int32) (*Life, error) {
	list, err := x.lifeChanges(ctx, change)
	if err != nil {
		return nil, err
	}
	first := x.changes.at(list[0])
	f := &Life{ID: FileID(x.commits[first.commit].id, x.paths.path(first.path)), Path: x.paths.path(x.changes.at(change).path), Tip: tip}
	number := 0
	for _, i := range list {
		v := x.versionOf(x.changes.at(i))
		if v.Type != 0 {
			number++
			v.Number = number
		}
		f.Versions = append(f.Versions, v)
	}
	return f, nil
}

// File returns the life of the file or folder that was last at a path in the history of a
// commit. It returns nil if the history never had the path. If the file went on
// at another path, its last version is Moved.
func (x *Index) File(ctx context.Context, tip Tip, path string) (*Life, error) {
	commit, known := x.commitNumbers[tip.Commit]
	number, had := x.paths.number(path)
	if !known || !had {
		return nil, nil
	}
	change := x.changeAt(commit, number)
	if change < 0 {
		return nil, nil
	}
	return x.fileOfLife(ctx, tip, change)
}

// FileAt returns the file at a path in the history of the first tip that has it, or nil.
func (x *Index) FileAt(ctx context.Context, path string) (*Life, error) {
	for _, tip := range x.tips {
		if f, err := x.File(ctx, tip, path); f != nil || err != nil {
			return f, err
		}
	}
	return nil, nil
}

// Find returns the file whose ID begins with digits, from the first tip with it. It returns nil
// if there is none or if there are fewer than [MinDigits], and [ErrAmbiguous] if there are several.
func (x *Index) Find(ctx context.Context, digits string) (*Life, error) {
	digits = strings.ToLower(digits)
	if !object.IsHex(digits) || len(digits) < MinDigits {
		return nil, nil
	}
	var found *Life
	for i := range x.changes.len() {
		c := x.changes.at(i)
		if c.same > 0 || c.flags&flagAdded == 0 || c.from >= 0 {
			continue
		}
		id := FileID(x.commits[c.commit].id, x.paths.path(c.path))
		if !strings.HasPrefix(id.String(), digits) {
			continue
		}
		f, err := x.fileFrom(ctx, i, id)
		if err != nil {
			return nil, err
		}
		if f != nil && found != nil {
			return nil, ErrAmbiguous
		}
		found = cmp.Or(f, found)
	}
	return found, nil
}

// fileFrom returns the file with an ID that begins with a change, from the first tip that
// has it. It returns nil if no life begins there. If another file, or a folder, has taken the
// path since, the life ends before that.
func (x *Index) fileFrom(ctx context.Context, change int32, id object.ID) (*Life, error) {
	paths := map[int32]bool{x.changes.at(change).path: true} // where the file can have been
	for grown := true; grown; {
		grown = false
		for i := range x.changes.len() {
			if c := x.changes.at(i); c.from >= 0 && paths[c.from] && !paths[c.path] {
				paths[c.path], grown = true, true
			}
		}
	}

	life := x.continuing(change, paths)
	for _, tip := range x.tips {
		best, err := x.fileAt(ctx, tip, id, paths)
		if best != nil || err != nil {
			return best, err
		}
		reached := x.reachedFrom(tip)
		for _, i := range slices.Backward(life) {
			if c := x.changes.at(i); reached[c.commit] && !c.isMoved() {
				return x.fileOfLife(ctx, tip, i)
			}
		}
	}
	return nil, nil
}

// fileAt returns the file with an ID that a tip has, or had last, at one of the given paths. It
// returns nil if there is none.
func (x *Index) fileAt(ctx context.Context, tip Tip, id object.ID, paths map[int32]bool) (best *Life, err error) {
	commit, known := x.commitNumbers[tip.Commit]
	if !known {
		return nil, nil
	}
	for path := range paths {
		end := x.changeAt(commit, path)
		if end < 0 || x.changes.at(end).isMoved() {
			continue
		}
		f, err := x.fileOfLife(ctx, tip, end)
		if err != nil {
			return nil, err
		}
		if f.ID == id && (best == nil || best.Removed() && !f.Removed() || best.Removed() == f.Removed() && f.Path < best.Path) {
			best = f
		}
	}
	return best, nil
}

// continuing returns the changes of the life that begins with a change, in any history, oldest
// first. The file was only at the given paths.
func (x *Index) continuing(change int32, paths map[int32]bool) (list []int32) {
	in := map[int32]bool{}
	for i := change; i < x.changes.len(); i++ {
		if c := x.changes.at(i); c.same > 0 || !paths[c.path] {
			continue
		}
		before := x.earlierChanges(i)
		if i == change && len(before) == 0 || len(before) > 0 && in[before[0]] {
			in[i] = true
			list = append(list, i)
		}
	}
	return list
}

// Deleted returns the files that the history of a commit has, and the commit itself does
// not. They are sorted by path.
func (x *Index) Deleted(ctx context.Context, tip Tip) (list []*Life, err error) {
	commit, known := x.commitNumbers[tip.Commit]
	if !known {
		return nil, nil
	}
	for path := range x.paths.len() {
		end := x.changeAt(commit, path)
		if end < 0 {
			continue
		}
		if c := x.changes.at(end); !c.isRemoval() || c.isMoved() || c.isDir() {
			continue
		}
		f, err := x.fileOfLife(ctx, tip, end)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *Life) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}
