package model

import (
	"cmp"
	"slices"
)

// index models index files. A pack is live if a live index file names it and no root
// has condemned it. Pushers and collectors merge index files. Index files are
// condemned and deleted like packs.
//
// At the start, main reaches content and tag reaches other. One index file names
// their packs. Pushers push content as refPushed.
type index struct {
	pushers, collectors int // 1 or 2
	rounds              int // per collector; default 1
	replans             int // how often a pusher plans again; default 1
	packs, files        int // the largest numbers; default 5 and 6

	mutation mutation
}

// indexRoot is a root.
type indexRoot struct {
	refs           refs
	files          set          // live index files
	condemned      condemnation // packs
	condemnedFiles condemnation // index files
	floor          uint8
}

// closure returns the objects that the refs reach.
func (r *indexRoot) closure() objects {
	var reached objects
	if r.refs&(refMain|refPushed) != 0 {
		reached |= content
	}
	if r.refs&refTag != 0 {
		reached |= other
	}
	return reached
}

// naming has the packs that each index file names, for all index files that ever
// existed. It is replaced, never changed.
type naming []set

// in returns the packs that the index files name.
func (n naming) in(files set) set {
	var packs set
	for f := range files.all() {
		packs |= n[f]
	}
	return packs
}

// with adds an index file. It returns the result and the set of the new file.
func (n naming) with(packs set) (naming, set) {
	return append(slices.Clip(n), packs), only(len(n))
}

// live returns the packs that are live at r.
func (r *indexRoot) live(n naming) set { return n.in(r.files) &^ r.condemned.names() }

// indexPusher is a push.
type indexPusher struct {
	step    pushStep
	base    uint8 // root that the next append follows
	start   uint8 // S0
	relied  set   // live(S)
	own     set   // uploaded packs
	file    set   // the uploaded index file, or empty
	merged  set   // index files that file replaces
	replans uint8
}

// indexCollector is a collector of garbage.
type indexCollector struct {
	step         collectStep
	base         uint8
	snapshot     indexRoot // the root to mark; only set at collectMark
	condemn      set       // packs
	condemnFiles set       // index files to condemn because no root names them
	file         set       // the uploaded index file, or empty
	merged       set       // index files that file replaces
	todo         set       // packs to delete
	todoFiles    set
	deleted      set // packs
	deletedFiles set
	round        uint8
}

// indexState is a state of the index machine.
type indexState struct {
	head       uint8 // number of the last root
	root       indexRoot
	present    set // packs in the store
	packs      contents
	files      set // index files in the store
	names      naming
	pushers    [2]indexPusher
	collectors [2]indexCollector
	done       actions
}

var _ machine[indexState] = (*index)(nil)

func (m index) explore(o options) result { return explore(m.bounded(), o) }

// bounded returns m with defaults for the unset bounds.
func (m index) bounded() *index {
	m.rounds, m.replans, m.packs, m.files = cmp.Or(m.rounds, 1), cmp.Or(m.replans, 1), cmp.Or(m.packs, 5), cmp.Or(m.files, 6)
	return &m
}

func (m *index) start() indexState {
	return indexState{
		root:    indexRoot{refs: refMain | refTag, files: only(0)},
		present: only(0) | only(1),
		packs:   contents{content, other},
		files:   only(0),
		names:   naming{only(0) | only(1)},
	}
}

func (m *index) next(s *indexState, emit func(string, indexState)) {
	if s.done&deletedMain == 0 && s.root.refs&refMain != 0 {
		to := s.append()
		to.root.refs &^= refMain
		to.done |= deletedMain
		emit("user: delete main", to)
	}
	for i := range m.pushers {
		if i == 0 || s.pushers[1] != s.pushers[0] {
			m.pusher(s, i, emit)
		}
	}
	for i := range m.collectors {
		m.collector(s, i, emit)
	}
}

// append returns s with one more root, for the caller to change.
func (s *indexState) append() indexState {
	to := *s
	to.head++
	return to
}

// live returns the packs that are live at the head.
func (s *indexState) live() set { return s.root.live(s.names) }

// upload adds an index file to the store. It returns the new state and the set of
// the new file.
func (s *indexState) upload(packs set) (to indexState, file set) {
	to = *s
	to.names, file = s.names.with(packs)
	to.files |= file
	return to, file
}

// liveIndexFileMissing is a violation beside those of packs.
const liveIndexFileMissing = "live index file missing"

func (m *index) violation(s *indexState) string {
	if s.root.files&^s.files != 0 {
		return liveIndexFileMissing
	}
	live := s.live()
	if live&^s.present != 0 {
		return livePackMissing
	}
	if s.root.closure()&^s.packs.in(live) != 0 {
		return reachableMissing
	}
	return ""
}

func (m *index) encode(dst []byte, s *indexState) []byte {
	dst = s.root.encode(append(dst, s.head))
	dst = append(dst, byte(s.present), byte(s.files), byte(s.done), byte(len(s.packs)))
	for _, c := range s.packs {
		dst = append(dst, byte(c))
	}
	dst = append(dst, byte(len(s.names)))
	for _, packs := range s.names {
		dst = append(dst, byte(packs))
	}
	dst = appendSorted(dst, m.pushers, func(dst []byte, i int) []byte {
		p := &s.pushers[i]
		return append(dst, byte(p.step), p.base, p.start, byte(p.relied), byte(p.own), byte(p.file), byte(p.merged), p.replans)
	})
	return appendSorted(dst, m.collectors, func(dst []byte, i int) []byte {
		c := &s.collectors[i]
		dst = append(dst, byte(c.step)<<4|c.round, c.base, byte(c.condemn), byte(c.condemnFiles), byte(c.file), byte(c.merged))
		dst = append(dst, byte(c.todo), byte(c.todoFiles), byte(c.deleted), byte(c.deletedFiles))
		if c.step == collectMark {
			dst = c.snapshot.encode(dst)
		}
		return dst
	})
}

func (r *indexRoot) encode(dst []byte) []byte {
	return r.condemnedFiles.encode(r.condemned.encode(append(dst, byte(r.refs), byte(r.files), r.floor)))
}

func (m *index) reached(s *indexState) milestones {
	var at milestones
	if s.root.refs&refPushed != 0 {
		at |= pushed
	}
	if s.root.floor > 0 {
		at |= delisted
	}
	for f := range s.root.files.all() {
		if f > 0 && s.names[f].len() > 1 {
			at |= merged
		}
	}
	return at
}
