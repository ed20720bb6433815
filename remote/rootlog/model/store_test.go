package model

import "cmp"

// store is the machine of packs and refs: pushers and collectors of garbage
// share one log of roots. It takes for granted what the two other machines
// show: that the log is one, and that index files tell what is live.
//
// In the beginning main reaches history and content, and tag something else
// that shares a pack with history. Pushers push history and content, as
// refPushed.
type store struct {
	pushers, collectors int // 1 or 2
	rounds              int // of each collector; 0: 2
	replans             int // how often a pusher plans again, or is resumed; 0: 1
	packs               int // there are never more; 0: 8

	// What else there is.
	expire      bool // somebody expires content, and undoes that
	hold        bool // somebody holds history and content
	dropPushed  bool // somebody deletes refPushed
	checkpoints bool // pushers send one object per pack, and may publish each before they have all
	crash       bool // pushers crash, and are resumed from their journals
	latePut     bool // each PUT of a pack may take effect once more, any time later
	lateDelete  bool // each DELETE likewise

	mutation mutation
}

// storeRoot is a root.
type storeRoot struct {
	refs      refs
	live      set // packs
	condemned condemnation
	floor     uint8
	expired   bool // content is gone from main on purpose
}

// closure has what the refs reach.
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

// holdStep is what the process that holds does next.
type holdStep uint8

// The steps of a hold. As everything that makes something reachable it follows
// the rules of a push.
const (
	holdPlan holdStep = iota
	holdAppend
	holdDone
	holdGone // what it wants is gone
)

// storeState is a state of the store machine.
type storeState struct {
	head       uint8 // number of the last root
	root       storeRoot
	present    set      // packs in the store
	packs      contents // of all packs that ever were
	pushers    [2]storePusher
	collectors [2]storeCollector
	done       actions
	latePut    set // packs of which a duplicate of the PUT is under way
	lateDelete set
	hold       holdStep
	holdBase   uint8
}

// actions is a set of what somebody does once.
type actions uint8

// Each is done once at most.
const (
	deletedMain actions = 1 << iota
	deletedPushed
	expiredContent
	undidExpire
)

var _ machine[storeState] = (*store)(nil)

func (m store) explore(o options) result { return explore(m.bounded(), o) }

// bounded returns m with the bounds that are not given.
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

// readable has the objects that can be read, for a while, though packs are
// condemned.
func (s *storeState) readable() objects {
	return s.packs.in((s.root.live | s.root.condemned.names()) & s.present)
}

// others do what moves refs and needs no pack.
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
		once("somebody: delete main", deletedMain, func(r *storeRoot) { r.refs &^= refMain })
	}
	if m.dropPushed && s.root.refs&refPushed != 0 {
		once("somebody: delete the branch pushed", deletedPushed, func(r *storeRoot) { r.refs &^= refPushed })
	}
	if !m.expire || s.root.refs&refMain == 0 {
		return
	}
	once("somebody: expire", expiredContent, func(r *storeRoot) { r.expired = true })
	there := pushedObjects&^s.packs.in(s.root.live) == 0
	if m.mutation == undoFromCondemned {
		there = content&^s.readable() == 0
	}
	if s.root.expired && there {
		once("somebody: undo expire", undidExpire, func(r *storeRoot) { r.expired = false })
	}
}

// holder makes a hold.
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

// What may go wrong with packs.
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
