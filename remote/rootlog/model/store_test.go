package model

import "cmp"

// store models packs and refs. Pushers and collectors share one log of roots. It
// assumes the results of the two other machines: there is one log, and index files
// determine the live packs.
//
// At the start, main reaches history and content. tag reaches other, which shares a
// pack with history. Pushers push history and content as refPushed.
type store struct {
	pushers, collectors int // 1 or 2
	rounds              int // per collector; default 2
	replans             int // how often a pusher plans again or resumes; default 1
	packs               int // the largest number; default 8

	// Optional events.
	expire      bool // content expires, and the expiration is undone
	hold        bool // a hold of history and content is made
	dropPushed  bool // refPushed is deleted
	checkpoints bool // pushers send one object per pack, and may publish each pack at once
	crash       bool // pushers crash, and resume from their journals
	latePut     bool // each PUT of a pack may take effect a second time, any time later
	lateDelete  bool // each DELETE likewise

	mutation mutation
}

// storeRoot is a root.
type storeRoot struct {
	refs      refs
	live      set // packs
	condemned condemnation
	floor     uint8
	expired   bool // content has expired in main
}

// closure returns the objects that the refs reach.
func (r *storeRoot) closure() objects {
	var reached objects
	if r.refs&refMain != 0 {
		reached |= history
		if !r.expired {
			reached |= content
		}
	}
	if r.refs&refTag != 0 {
		reached |= other
	}
	if r.refs&(refHold|refPushed) != 0 {
		reached |= history | content
	}
	return reached
}

// holdStep is the next step of the process that makes a hold.
type holdStep uint8

// The steps of a hold. It makes objects reachable, so it follows the rules of a push.
const (
	holdPlan holdStep = iota
	holdAppend
	holdDone
	holdGone // its objects are gone
)

// storeState is a state of the store machine.
type storeState struct {
	head       uint8 // number of the last root
	root       storeRoot
	present    set      // packs in the store
	packs      contents // of all packs that ever existed
	pushers    [2]storePusher
	collectors [2]storeCollector
	done       actions
	latePut    set // packs with a duplicate PUT under way
	lateDelete set // packs with a duplicate DELETE under way
	hold       holdStep
	holdBase   uint8
}

// actions is a set of events.
type actions uint8

// Each event happens at most once.
const (
	deletedMain actions = 1 << iota
	deletedPushed
	expiredContent
	undidExpire
)

var _ machine[storeState] = (*store)(nil)

func (m store) explore(o options) result { return explore(m.bounded(), o) }

// bounded returns m with defaults for the unset bounds.
func (m store) bounded() *store {
	m.rounds, m.replans, m.packs = cmp.Or(m.rounds, 2), cmp.Or(m.replans, 1), cmp.Or(m.packs, 8)
	return &m
}

func (m *store) start() storeState {
	return storeState{
		root:    storeRoot{refs: refMain | refTag, live: only(0) | only(1)},
		present: only(0) | only(1),
		packs:   contents{history | other, content},
	}
}

func (m *store) next(s *storeState, emit func(string, storeState)) {
	m.others(s, emit)
	if m.hold {
		m.holder(s, emit)
	}
	for i := range m.pushers {
		if i == 0 || s.pushers[1] != s.pushers[0] {
			m.pusher(s, i, emit)
		}
	}
	for i := range m.collectors {
		m.collector(s, i, emit)
	}
	for n := range s.latePut.all() {
		to := *s
		to.present |= only(n)
		to.latePut &^= only(n)
		emit("store: a PUT takes effect late", to)
	}
	for n := range s.lateDelete.all() {
		to := *s
		to.present &^= only(n)
		to.lateDelete &^= only(n)
		emit("store: a DELETE takes effect late", to)
	}
}

// append returns s with one more root, for the caller to change.
func (s *storeState) append() storeState {
	to := *s
	to.head++
	return to
}

// readable returns the objects in present packs, whether live or condemned.
func (s *storeState) readable() objects {
	return s.packs.in((s.root.live | s.root.condemned.names()) & s.present)
}

// others emits the changes of refs that need no pack.
func (m *store) others(s *storeState, emit func(string, storeState)) {
	once := func(step string, a actions, change func(*storeRoot)) {
		if s.done&a == 0 {
			to := s.append()
			change(&to.root)
			to.done |= a
			emit(step, to)
		}
	}
	if s.root.refs&refMain != 0 {
		once("user: delete main", deletedMain, func(r *storeRoot) { r.refs &^= refMain })
	}
	if m.dropPushed && s.root.refs&refPushed != 0 {
		once("user: delete the branch pushed", deletedPushed, func(r *storeRoot) { r.refs &^= refPushed })
	}
	if !m.expire || s.root.refs&refMain == 0 {
		return
	}
	once("user: expire", expiredContent, func(r *storeRoot) { r.expired = true })
	there := pushedObjects&^s.packs.in(s.root.live) == 0
	if m.mutation == undoFromCondemned {
		there = content&^s.readable() == 0
	}
	if s.root.expired && there {
		once("user: undo expire", undidExpire, func(r *storeRoot) { r.expired = false })
	}
}

// holder emits the steps of a hold.
func (m *store) holder(s *storeState, emit func(string, storeState)) {
	root, to := &s.root, *s
	to.holdBase = 0
	switch s.hold {
	case holdPlan:
		found := s.packs.in(root.live)
		if m.mutation == holdFromCondemned || m.mutation == takeBackCondemned {
			found = s.readable()
		}
		to.hold = holdGone
		if pushedObjects&^found == 0 {
			to.hold, to.holdBase = holdAppend, s.head
		}
		emit("hold: plan", to)

	case holdAppend:
		appended := s.append()
		appended.root.refs |= refHold
		appended.hold, appended.holdBase = holdDone, 0
		switch {
		case m.mutation == takeBackCondemned && pushedObjects&^s.readable() != 0:
			to.hold = holdGone
			emit("hold: it is gone", to)

		case m.mutation == takeBackCondemned:
			if pushedObjects&^s.packs.in(root.live) != 0 {
				appended.root.live |= root.condemned.names()
				appended.root.condemned = nil
			}
			emit("hold: append, and take packs back", appended)

		case s.head == s.holdBase || m.mutation == holdFromCondemned:
			emit("hold: append", appended)
		default:
			to.hold = holdPlan
			emit("hold: lost the race", to)
		}
	}
}

func (m *store) violation(s *storeState) string {
	if s.root.live&^s.present != 0 {
		return livePackMissing
	}
	if s.root.closure()&^s.packs.in(s.root.live) != 0 {
		return reachableMissing
	}
	return ""
}

// The violations of packs.
const (
	livePackMissing  = "live pack missing"
	reachableMissing = "reachable object in no live pack"
)

func (m *store) encode(dst []byte, s *storeState) []byte {
	dst = s.root.encode(append(dst, s.head))
	dst = append(dst, byte(s.present), byte(s.done), byte(s.latePut), byte(s.lateDelete), byte(s.hold), s.holdBase, byte(len(s.packs)))
	for _, c := range s.packs {
		dst = append(dst, byte(c))
	}
	dst = appendSorted(dst, m.pushers, func(dst []byte, i int) []byte {
		p := &s.pushers[i]
		return append(dst, byte(p.step), p.base, p.start, byte(p.relied), byte(p.own), byte(p.missing), p.replans)
	})
	return appendSorted(dst, m.collectors, func(dst []byte, i int) []byte {
		c := &s.collectors[i]
		dst = append(dst, byte(c.step)<<4|c.round, c.base, c.start)
		dst = append(dst, byte(c.condemn), byte(c.orphans), byte(c.repacked), byte(c.todo), byte(c.deleted))
		if c.step == collectMark {
			dst = c.snapshot.encode(dst)
		}
		return dst
	})
}

func (r *storeRoot) encode(dst []byte) []byte {
	return r.condemned.encode(append(dst, byte(r.refs), byte(r.live), r.floor, bit(r.expired)))
}

func (m *store) reached(s *storeState) milestones {
	var at milestones
	if s.root.refs&refPushed != 0 {
		at |= pushed
	}
	for _, p := range s.pushers {
		if p.step == pushDone && p.replans > 0 {
			at |= pushedAfterReplan
		}
	}
	if s.root.refs&refHold != 0 {
		at |= held
	}
	if s.root.expired {
		at |= expired
	}
	for n := range s.root.live.all() {
		if n > 1 && (s.packs[n] == other || s.packs[n] == history) {
			at |= repacked
		}
	}
	if s.root.floor > 0 {
		at |= delisted
	}
	return at
}
