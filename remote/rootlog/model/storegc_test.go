package model

// storeCollector is a collector of garbage.
type storeCollector struct {
	step     collectStep
	base     uint8
	start    uint8     // S0 of repacked
	snapshot storeRoot // the root to mark; only set at collectMark
	condemn  set
	orphans  set // the part of condemn that was never live
	repacked set // pack with the reachable objects of repacked packs
	todo     set // packs to delete
	deleted  set
	round    uint8
}

// collectStep is the next step of a collector.
type collectStep uint8

// The steps of a collector.
const (
	collectLook    collectStep = iota // look at the head
	collectMark                       // mark, choose what to condemn, upload a repacked pack
	collectCondemn                    // append a root that condemns
	collectDelete                     // delete the condemned files
	collectDelist                     // forget the deleted files
	collectDone
	collectRoot // append the root that delists; only in the index machine
)

func (s collectStep) String() string {
	return [...]string{"look at the head", "mark", "condemn", "delete", "delist", "done", "delist, append"}[s]
}

// aborted is the round of a collector that found damage or nothing to do.
const aborted = 9

// collector emits the steps of the i-th collector. Its uploads follow the rules of
// a push.
func (m *store) collector(s *storeState, i int, emit func(string, storeState)) {
	c := s.collectors[i]
	switch c.step {
	case collectLook:
		if int(c.round) == m.rounds {
			return
		}
		if (c.repacked&s.root.condemned.names() != 0 || c.start < s.root.floor) && m.mutation != useRepackedUnchecked {
			c.repacked = 0
		}
		if c.repacked == 0 {
			c.start = s.head
		}
		to := *s
		to.collectors[i] = storeCollector{step: collectMark, base: s.head, start: c.start, snapshot: s.root, repacked: c.repacked, round: c.round}
		emit("collector: look at the head", to)
	case collectMark:
		m.mark(s, i, emit)
	case collectCondemn:
		m.condemn(s, i, emit)
	case collectDelete:
		m.delete(s, i, emit)
	case collectDelist:
		m.delist(s, i, emit)
	}
}

// mark chooses the packs to condemn: all without an object that the snapshot reaches.
// It emits variants with and without orphans (old or not), and with and without repacking.
func (m *store) mark(s *storeState, i int, emit func(string, storeState)) {
	c := s.collectors[i]
	root := &c.snapshot
	reach := root.closure()
	if reach&^s.packs.in(root.live) != 0 {
		to := *s
		to.collectors[i] = storeCollector{step: collectDone, round: aborted}
		emit("collector: mark, abort", to)
		return
	}

	var dead set
	for n := range root.live.all() {
		if s.packs[n]&reach == 0 {
			dead |= only(n)
		}
	}

	old := s.present &^ root.live &^ root.condemned.names() &^ c.repacked
	for _, orphans := range twice(0, old) {
		if m.mutation == deleteByAge && orphans != 0 {
			to := *s
			to.present &^= orphans
			to.collectors[i] = storeCollector{repacked: c.repacked, round: c.round + 1}
			emit("collector: delete orphans by their age", to)
			continue
		}
		m.marked(s, i, dead, orphans, 0, emit)
		if condemn, need := s.packs.repack(root.live, dead, reach); condemn != dead {
			m.marked(s, i, condemn, orphans, need, emit)
		}
	}
}

// repack adds live packs to dead: a pack whose reachable objects are all in other
// packs, and a pack that has unreachable objects. It returns the result, and the
// reachable objects that then need a new pack.
func (c contents) repack(live, dead set, reach objects) (condemn set, need objects) {
	keep := live &^ dead
	for n := range keep.all() {
		if c[n]&reach&^c.in(keep&^only(n)) == 0 {
			keep &^= only(n)
		}
	}
	for n := range keep.all() {
		if c[n]&^reach != 0 {
			keep &^= only(n)
			need |= c[n] & reach
		}
	}
	return live &^ keep, need &^ c.in(keep)
}

// marked continues to condemn the chosen packs, after an upload of the needed objects.
func (m *store) marked(s *storeState, i int, condemn, orphans set, need objects, emit func(string, storeState)) {
	to, c := *s, s.collectors[i]
	before := c.snapshot.condemned.names()
	condemn |= orphans
	next := storeCollector{step: collectCondemn, base: c.base, start: c.start, condemn: condemn, orphans: orphans, repacked: c.repacked, round: c.round}
	step := "collector: mark"
	switch {
	case need&^s.packs.in(c.repacked) != 0:
		if len(s.packs) == m.packs || condemn|c.repacked == 0 {
			return
		}
		var n int
		to.packs, n = s.packs.with(need)
		to.present |= only(n)
		if m.latePut {
			to.latePut |= only(n)
		}
		next.repacked = only(n)
		step = "collector: mark, repack"
	case condemn != 0:
		if need == 0 {
			next.repacked = 0
		}
	case before != 0:
		next = storeCollector{step: collectDelete, todo: before, round: c.round}
		step = "collector: mark, nothing new to condemn"
	default:
		next = storeCollector{step: collectDone, round: aborted}
		step = "collector: mark, nothing to do"
	}

	to.collectors[i] = next
	emit(step, to)
}

// condemn appends a root that condemns the chosen packs, if the head is still the
// marked root. Otherwise the collector starts over.
func (m *store) condemn(s *storeState, i int, emit func(string, storeState)) {
	c := s.collectors[i]
	if s.head != c.base {
		to := *s
		if m.mutation == condemnStale {
			to.collectors[i].base = s.head
		} else {
			to.collectors[i] = storeCollector{start: c.start, repacked: c.repacked, round: c.round + 1}
		}
		emit("collector: lost the race", to)
		return
	}
	to := s.append()
	to.root.live = s.root.live&^c.condemn | c.repacked
	to.root.condemned = s.root.condemned.with(c.condemn, c.orphans, to.head)
	to.collectors[i] = storeCollector{step: collectDelete, todo: s.root.condemned.names() | c.condemn, round: c.round}
	emit("collector: condemn", to)
}

// delete deletes one condemned pack.
func (m *store) delete(s *storeState, i int, emit func(string, storeState)) {
	to, c := *s, &s.collectors[i]
	next := &to.collectors[i]
	if c.todo == 0 {
		next.step = collectDelist
		emit("collector: all deleted", to)
		return
	}
	pack := only(c.todo.first())
	to.present &^= pack
	if m.lateDelete {
		to.lateDelete |= pack
	}
	next.todo &^= pack
	next.deleted |= pack
	emit("collector: delete", to)
}

// delist appends a root that forgets the deleted packs and raises the floor.
func (m *store) delist(s *storeState, i int, emit func(string, storeState)) {
	c := s.collectors[i]
	rest, gone := s.root.condemned.without(c.deleted)
	to, step := *s, "collector: nothing to delist"
	if len(gone) > 0 {
		to, step = s.append(), "collector: delist"
		to.root.condemned = rest
		for _, e := range gone {
			if e.orphan || m.mutation != floorOfOrphans {
				to.root.floor = max(to.root.floor, e.at)
			}
		}
	}
	to.collectors[i] = storeCollector{round: c.round + 1}
	emit(step, to)
}
