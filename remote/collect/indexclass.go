package collect

import (
	"slices"

	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Index files have size classes. The largest of a class are 8 times as large as those of the class before. Of the last class, no two
// are merged: most of them have between 128 MiB and 1 GiB. So an entry is written again once in each class, and not with every merge.
const (
	smallIndex     = 256 << 10 // bytes of the largest index file of class 0
	indexClasses   = 5
	pushedClasses  = 3 // a push merges index files of the first classes, the largest of 16 MiB
	maxIndexFiles  = 4 // index files of a class that are left alone
	deadPartOfFile = 4 // an index file is replaced if one of so many of its entries is dead
)

// indexClass returns the class of an index file of size bytes, from 0 on.
func indexClass(size int64) (class int) {
	for most := int64(smallIndex); size > most && class < indexClasses-1; most *= 8 {
		class++
	}
	return class
}

// crowdedIndexes returns the index files of the first classes in which there are too many, by class.
func crowdedIndexes(files []rootlog.File, classes int) (crowded [][]rootlog.File) {
	byClass := make([][]rootlog.File, indexClasses)
	for _, f := range files {
		class := indexClass(f.Size)
		byClass[class] = append(byClass[class], f)
	}
	for _, list := range byClass[:min(classes, indexClasses-1)] {
		if len(list) > maxIndexFiles {
			crowded = append(crowded, list)
		}
	}
	return crowded
}

// indexesToReplace returns the index files to replace by a new one: all of a class with too many, and each with a quarter of dead
// entries. Dead are the entries of packs for which gone returns true. A small index file is replaced if any is dead.
func indexesToReplace(s *transfer.Snapshot, gone func(pack.Name) bool) ([]rootlog.File, error) {
	crowded := slices.Concat(crowdedIndexes(s.State.Indexes, indexClasses)...)
	var replaced []rootlog.File
	for i, f := range s.State.Indexes {
		due := slices.ContainsFunc(crowded, func(c rootlog.File) bool { return c.Name == f.Name })
		if !due && slices.ContainsFunc(s.Indexes[i].PackInfos, func(p pack.Info) bool { return gone(p.Name) }) {
			dead, err := countDead(s, i, gone)
			if err != nil {
				return nil, err
			}
			due = f.Size <= smallIndex || dead*deadPartOfFile >= s.Indexes[i].Len()
		}
		if due {
			replaced = append(replaced, f)
		}
	}
	return replaced, nil
}

// countDead returns how many entries of index file i are of packs for which gone returns true.
func countDead(s *transfer.Snapshot, i int, gone func(pack.Name) bool) (dead int, err error) {
	for e, err := range s.Indexes[i].All() {
		if err != nil {
			return 0, s.IndexDamage(i, err)
		}
		if gone(e.Pack.Name) {
			dead++
		}
	}
	return dead, nil
}
