package object

import "context"

// AddNode adds all entries of a whole node of another directory, without
// reading it: child is an item of an inner node of the given level, and its
// names come after all that were added. It reports false, and adds nothing, if
// the writer is not at the beginning of a node or child does not end at a
// boundary; the caller then adds the content of child.
//
// Adding a node gives the same list as adding its entries, unless the node is
// one of fewer than [MinListItems] items, which needs entries of more than
// [MaxListSize] / [MinListItems] bytes, or the last of its level; such a node
// still gives a valid list.
func (t *TreeWriter) AddNode(ctx context.Context, level uint8, child TreeChild) (bool, error) {
	ok, err := t.list.addNode(ctx, int(level), listItem{name: child.Last, link: Key{KindTree, child.ID}})
	return ok, encodeError(KindTree, err)
}

// addNode adds an item above level 0, if its node is one that the splitter
// would have written itself.
func (s *splitter) addNode(ctx context.Context, level int, it listItem) (bool, error) {
	if level < 1 || level >= MaxLevel || !isBoundary(s.kind, uint8(level-1), it.name, it.link.ID) {
		return false, nil
	}
	for _, l := range s.levels[:min(level, len(s.levels))] {
		if l.node.count > 0 {
			return false, nil
		}
	}
	for len(s.levels) < level {
		s.levels = append(s.levels, &splitLevel{node: getListNode(s.kind, uint8(len(s.levels)))})
	}
	for i, l := range s.levels[:level] {
		if s.kind == KindTree && it.name <= l.node.last {
			return false, faultf(ReasonOrder, "%q after %q", it.name, l.node.last)
		}
		l.node.last = it.name
		l.done += MinListItems // the levels below the node have more than one
		if i == level-1 {
			l.done -= MinListItems - 1
			l.last = it.link.ID
		}
	}
	return true, s.add(ctx, level, it)
}
