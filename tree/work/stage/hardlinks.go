package stage

import (
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// groupLinks gives all names of one file the same hard-link group. If another name is in
// the index, and the file has not changed since, it is the group of that name. Otherwise
// the first path decides. So the group depends on no inode number, and the next commit has
// the same one.
func (l *edits) groupLinks(idx *index.Index) {
	type inode struct {
		number uint64
		ctime  int64
		size   int64
	}
	of := func(e *index.Entry) inode { return inode{e.Stat.Inode, e.Stat.CTime, e.Stat.Size} }
	first := map[inode]string{}
	touched := map[string]bool{}
	for i := range l.list {
		e := &l.list[i]
		if !e.hasOpenLinks || e.entry.Stat.IsZero() {
			continue
		}
		touched[e.path] = true
		if path, ok := first[of(e.entry)]; !ok || tree.ComparePaths(e.path, path) < 0 {
			first[of(e.entry)] = e.path
		}
	}

	if len(first) == 0 {
		return
	}

	group := map[inode]uint64{}
	for path, e := range idx.All() {
		if _, ok := first[of(e)]; ok && e.HasMetadata() && !touched[path] {
			if m := e.Metadata(); m.HardLink != 0 {
				group[of(e)] = m.HardLink
			}
		}
	}

	for i := range l.list {
		e := &l.list[i]
		if !e.hasOpenLinks {
			continue
		}
		number, ok := group[of(e.entry)]
		if path, grouped := first[of(e.entry)]; !ok && grouped {
			number = worktree.HardLinkGroup(path)
		} else if !ok {
			number = worktree.HardLinkGroup(e.path) // it changed while it was read
		}
		e.entry.SetHardLink(number)
	}
}
