package tree

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// DirectoryRenames is the effect of a directory that one side renamed on files that the other
// side added to it. A directory counts as renamed if it is gone and more of its files moved to
// one directory than to any other.
type DirectoryRenames uint8

// The effects of renamed directories.
const (
	IgnoreDirectoryRenames DirectoryRenames = iota // the files stay at their paths
	AskDirectoryRenames                            // they move along, and each is a conflict
	FollowDirectoryRenames                         // they move along
)

// arrival is an entry that one side added below a directory that the other side removed.
type arrival struct {
	path  string
	entry *object.Entry
	dir   string // the renamed directory around it; empty: none
	to    string // its path in the renamed directory; empty: it stays
	ask   bool   // it is a conflict: its place is not clear
}

// arrivals collects the arrivals of both sides, ours and theirs, from changes in path order.
type arrivals struct {
	found   [2][]arrival
	removed [2]string // the outermost removed directory at or before the present path
}

// noteChange collects a change of a side.
func (a *arrivals) noteChange(side int, c Change) {
	if IsDir(c.Old) && !IsDir(c.New) && !belowAny(c.Path, a.removed[side]) {
		a.removed[side] = c.Path
	}
	added := c.New != nil && (c.Old == nil || IsDir(c.Old) != IsDir(c.New))
	if dir, _ := Split(c.Path); added && belowAny(dir, a.removed[1-side]) {
		a.found[side] = append(a.found[side], arrival{path: c.Path, entry: c.New})
	}
}

// belowAny is [Below] for a directory that may be missing: "" stands for none.
func belowAny(path, dir string) bool { return dir != "" && Below(path, dir) }

// renamedDirs are the directories that one side renamed and in which the other side has arrivals.
type renamedDirs struct {
	to     map[string]string // new paths by old ones
	split  map[string]bool   // directories whose files went to several others, to none the most
	direct map[string]bool   // directories with a file that arrived in them, not further down
}

// placeArrival sets the place of an arrival.
func (d *renamedDirs) placeArrival(a *arrival) {
	for dir, _ := Split(a.path); dir != ""; dir, _ = Split(dir) {
		a.ask = a.ask || d.split[dir] && !IsDir(a.entry)
		if to, ok := d.to[dir]; ok {
			a.dir, a.to = dir, Join(to, a.path[len(dir)+1:])
			return
		}
	}
}

// followDirectories moves the arrivals of both sides along with their directories. It replaces
// the trees of the sides by trees that have the arrivals in their new places. It reports false
// if there is nothing to move.
func (m *merger) followDirectories(ctx context.Context) (bool, error) {
	var renamed [2]renamedDirs
	for side := range renamed {
		var err error
		if renamed[side], err = m.renamedDirs(ctx, side); err != nil {
			return false, err
		}
	}

	targets := [2]map[string]int{{}, {}} // files that arrive at a path
	for side, list := range m.arrivals.found {
		for i := range list {
			if renamed[1-side].placeArrival(&list[i]); list[i].to != "" && !IsDir(list[i].entry) {
				targets[side][list[i].to]++
			}
		}
	}

	moved := false
	for side, list := range m.arrivals.found {
		for i := range list {
			if err := m.checkArrival(ctx, side, &list[i], targets, renamed); err != nil {
				return false, err
			}
			moved = moved || list[i].to != ""
		}
	}
	if !moved {
		return false, nil
	}

	edited := [2]object.ID{}
	for side := range edited {
		var err error
		if edited[side], err = m.moveArrivals(ctx, side); err != nil {
			return false, err
		}
	}

	m.Ours, m.Theirs = edited[0], edited[1]
	return true, nil
}

// sideTree returns the tree of a side, by its number in [arrivals].
func (m *merger) sideTree(side int) object.ID {
	if side == 0 {
		return m.Ours
	}
	return m.Theirs
}

// renamedDirs finds the directories that a side renamed and in which the other side has arrivals.
func (m *merger) renamedDirs(ctx context.Context, side int) (renamedDirs, error) {
	d := renamedDirs{to: map[string]string{}, split: map[string]bool{}, direct: map[string]bool{}}
	around := map[string]bool{} // the directories around arrivals
	for _, a := range m.arrivals.found[1-side] {
		if dir, _ := Split(a.path); !IsDir(a.entry) {
			d.direct[dir] = true
		}
		for dir, _ := Split(a.path); dir != "" && !around[dir]; dir, _ = Split(dir) {
			around[dir] = true
		}
	}
	if len(around) == 0 {
		return d, nil
	}

	matcher, removed := renameMatcher{r: m.rw}, map[string]bool{}
	for c, err := range m.diffSide(ctx, m.sideTree(side)) {
		if err != nil {
			return d, err
		}
		matcher.addSides(c)
		if IsDir(c.Old) && !IsDir(c.New) {
			removed[c.Path] = true
		}
	}

	err := matcher.matchFiles(ctx, func(old *renameSide) bool {
		for dir, _ := Split(old.path); dir != ""; dir, _ = Split(dir) {
			if around[dir] && removed[dir] {
				return true
			}
		}
		return false
	})
	if err != nil {
		return d, err
	}

	counts := map[string]map[string]int{} // files by old and new directory
	for _, old := range matcher.olds {
		if old.to != nil {
			countMove(counts, removed, old.path, old.to.path)
		}
	}
	maps.DeleteFunc(counts, func(dir string, _ map[string]int) bool { return !around[dir] })
	d.chooseTargets(counts)
	return d, nil
}

// chooseTargets sets the new path of each directory by the number of files that moved to it.
func (d *renamedDirs) chooseTargets(counts map[string]map[string]int) {
	for dir, to := range counts {
		most := slices.Max(slices.Collect(maps.Values(to)))
		for new, n := range to {
			if _, twice := d.to[dir]; n == most && twice {
				d.split[dir] = true
			} else if n == most {
				d.to[dir] = new
			}
		}
		if d.split[dir] {
			delete(d.to, dir)
		}
	}
}

// countMove counts a moved file for its directory. It also counts the file for each directory
// above, as long as the old and the new path go on with the same names.
func countMove(counts map[string]map[string]int, removed map[string]bool, from, to string) {
	old, _ := Split(from)
	new, _ := Split(to)
	for removed[old] {
		if counts[old] == nil {
			counts[old] = map[string]int{}
		}
		counts[old][new]++
		if new == "" {
			return
		}

		var oldName, newName string
		old, oldName = Split(old)
		new, newName = Split(new)
		if oldName != newName {
			return
		}
	}
}

// checkArrival decides whether an arrival of a side moves. It stays if the own side renamed the
// new directory, too, or if an arrival of the other side moves to its path. If its new path is
// taken, it stays and is a conflict.
func (m *merger) checkArrival(ctx context.Context, side int, a *arrival, targets [2]map[string]int, renamed [2]renamedDirs) error {
	if a.to == "" {
		return nil
	}

	var err error
	to := renamed[1-side].to[a.dir]
	_, leaves := renamed[side].to[to]
	leaves = leaves || targets[1-side][a.path] > 0
	if !leaves && !renamed[1-side].direct[a.dir] {
		leaves, err = m.isBelowRemoved(ctx, side, to)
	}
	if err != nil || leaves {
		a.to = ""
		return err
	}

	taken := targets[side][a.to] > 1
	if !taken {
		if taken, err = m.isTaken(ctx, side, a, targets[side]); err != nil {
			return err
		}
	}
	if taken {
		a.to, a.ask = "", !IsDir(a.entry)
	}
	return nil
}

// isBelowRemoved reports whether a directory is below one that a side removed. Two directories
// that moved into each other stay there if only directories arrived in them.
func (m *merger) isBelowRemoved(ctx context.Context, side int, dir string) (bool, error) {
	d := differ{r: m.rw}
	for dir, _ = Split(dir); dir != ""; dir, _ = Split(dir) {
		was, err := d.findEntry(ctx, m.Base, dir)
		if err != nil {
			return false, err
		}
		is, err := d.findEntry(ctx, m.sideTree(side), dir)
		if err != nil || IsDir(was) && !IsDir(is) {
			return err == nil, err
		}
	}
	return false, nil
}

// isTaken reports whether the new path of an arrival, or one above, has something else on its side.
// A file of base also counts, except if it moved to the old path of the arrival.
func (m *merger) isTaken(ctx context.Context, side int, a *arrival, targets map[string]int) (bool, error) {
	d := differ{r: m.rw}
	there, err := d.findEntry(ctx, m.sideTree(side), a.to)
	if err != nil {
		return false, err
	}
	if there != nil && (!IsDir(a.entry) || !IsDir(there)) || IsDir(a.entry) && targets[a.to] > 0 {
		return true, nil
	}

	for dir, _ := Split(a.to); dir != ""; dir, _ = Split(dir) {
		above, err := d.findEntry(ctx, m.sideTree(side), dir)
		if err != nil {
			return false, err
		}
		if above != nil && !IsDir(above) || targets[dir] > 0 {
			return true, nil
		}
	}

	base, err := d.findEntry(ctx, m.Base, a.to)
	if err != nil || base == nil || IsDir(base) || IsDir(a.entry) {
		return false, err
	}
	moves, err := m.findMoves(ctx, m.sideTree(side), map[string]bool{a.to: true})
	if err != nil {
		return false, err
	}
	from := moves[a.to]
	return from == nil || from.path != a.path, nil
}

// moveArrivals returns the tree of a side with its arrivals in their new places. Missing
// directories on the way get the properties that they have on the other side, or else those of
// the directories that the arrivals leave.
func (m *merger) moveArrivals(ctx context.Context, side int) (object.ID, error) {
	d := differ{r: m.rw}
	made := map[string]bool{}
	var edits []mergeEdit
	makeDir := func(dir, old string) error {
		there, err := d.findEntry(ctx, m.sideTree(side), dir)
		if err != nil || there != nil || made[dir] {
			return err
		}
		made[dir] = true
		properties, err := d.findEntry(ctx, m.sideTree(1-side), dir)
		if !IsDir(properties) && err == nil {
			properties, err = d.findEntry(ctx, m.sideTree(side), old)
		}
		if IsDir(properties) {
			edits = append(edits, mergeEdit{dir, opSetDir, *properties})
		}
		return err
	}

	for _, a := range m.arrivals.found[side] {
		if a.to == "" {
			continue
		}
		for dir, old := parentDirs(a.to, a.path); dir != ""; dir, old = parentDirs(dir, old) {
			if err := makeDir(dir, old); err != nil {
				return object.ID{}, err
			}
		}
		if !IsDir(a.entry) {
			edits = append(edits, mergeEdit{a.path, opRemove, object.Entry{}}, mergeEdit{a.to, opSet, *a.entry})
			continue
		}
		edits = append(edits, mergeEdit{a.path, opOffer, *a.entry})
		if err := makeDir(a.to, a.path); err != nil {
			return object.ID{}, err
		}
	}
	if len(edits) == 0 {
		return m.sideTree(side), nil
	}

	slices.SortStableFunc(edits, func(a, b mergeEdit) int { return ComparePaths(a.path, b.path) })
	info, err := m.applyEdits(ctx, m.sideTree(side), edits)
	return info.ID, err
}

// parentDirs returns the directories of two paths.
func parentDirs(a, b string) (string, string) {
	a, _ = Split(a)
	b, _ = Split(b)
	return a, b
}

// askAboutArrivals adds the conflicts for arrivals. A path that has a conflict already gets no
// other.
func (m *merger) askAboutArrivals(ctx context.Context, found [2][]arrival) error {
	has := map[string]bool{}
	for _, c := range m.conflicts {
		has[c.Path], has[c.OursPath], has[c.TheirsPath] = true, true, true
	}

	at := make(map[string]threeWay, len(m.both))
	for _, w := range m.both {
		at[w.path] = w
	}

	d := differ{r: m.rw}
	for _, list := range found {
		for _, a := range list {
			moved := a.to != "" && !IsDir(a.entry) && m.opts.Directories == AskDirectoryRenames
			path := cmp.Or(a.to, a.path)
			if !a.ask && !moved || has[path] {
				continue
			}
			c := Conflict{Path: path, Kind: ConflictLocation}
			if a.to != "" {
				c.From = a.path
			}
			if w, ok := at[path]; ok {
				c.Base, c.Ours, c.Theirs = w.base, w.ours, w.theirs
			} else {
				for to, root := range map[**object.Entry]object.ID{&c.Base: m.Base, &c.Ours: m.Ours, &c.Theirs: m.Theirs} {
					e, err := d.findEntry(ctx, root, path)
					if err != nil {
						return err
					}
					*to = e
				}
			}
			m.addConflict(c)
		}
	}
	return nil
}
