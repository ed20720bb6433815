package model

import (
	"cmp"
	"fmt"
	"strings"
)

// keeps models a clone that gives content away, beside other users of the remote and a
// collector. One object stands for the content: A, with everything below it, in one pack.
//
// At the start, the branch main of the remote reaches A. The user of the clone drops its
// name, and adds the same bytes again in a commit of its own. Others delete main, and the
// clone's keep ref, once each. From then on, A may be lost if the clone has relied on it before.
type keeps struct {
	lazy   bool // the clone begins without A
	rounds int  // of the collector; default 2
	tries  int  // how often the clone moves its keep ref; default 3

	mutation mutation
}

// place says where a clone has A.
type place uint8

const (
	placeNowhere place = iota // a name of it may still be known
	placeHere                 // in a volume
	placeAway                 // given away, or never brought
)

func (p place) String() string { return [...]string{"nowhere", "here", "away"}[p] }

// need says why the clone needs A.
type need uint8

const (
	needCloned need = 1 << iota // a branch of the clone names a commit that the remote had
	needAdded                   // a commit that nobody pushed
)

func (n need) String() string { return bitNames(uint(n), "cloned", "added") }

// keepsRoot is a root.
type keepsRoot struct {
	main, keep bool // the refs that reach A
	live       set  // packs
	condemned  condemnation
	floor      uint8
}

// keeper moves the keep ref of the clone.
type keeper struct {
	step   keepStep
	base   uint8 // root that the next append follows
	relied set   // packs that were live at the plan
	want   bool  // the keep ref reaches A
	tries  uint8
}

// keepStep is the next step of a keeper.
type keepStep uint8

// The steps of a keeper.
const (
	keepPlan keepStep = iota
	keepAppend
)

func (s keepStep) String() string { return [...]string{"plan", "check and append"}[s] }

// session adds the bytes of A, which it has, in a commit.
type session uint8

// The states of a session.
const (
	sessionIdle session = iota
	sessionMetAway
	sessionStored
	sessionTrusts // read a head that keeps A; publishes next
	sessionDone
)

func (s session) String() string {
	return [...]string{"", "met away content", "stored", "trusts the head", "done"}[s]
}

// keepsCollector is a collector of garbage.
type keepsCollector struct {
	step    collectStep
	base    uint8
	condemn set
	todo    set
	deleted set
	round   uint8
}

// keepsState is a state of the keeps machine.
type keepsState struct {
	head    uint8
	root    keepsRoot
	present set // packs in the store; only pack 0, with A, ever exists

	place     place
	need      need
	cloned    bool // the clone has acknowledged itself
	proven    bool // the evictor has read a head that keeps A
	betrayed  bool // somebody else deleted the keep ref after the clone had relied on it
	dropped   bool // the user dropped the cloned name
	deleted   bool // somebody deleted the keep ref
	session   session
	keeper    keeper
	collector keepsCollector
}

var _ machine[keepsState] = (*keeps)(nil)

func (m keeps) explore(o options) result { return explore(m.bounded(), o) }

// bounded returns m with defaults for the unset bounds.
func (m keeps) bounded() *keeps {
	m.rounds, m.tries = cmp.Or(m.rounds, 2), cmp.Or(m.tries, 3)
	return &m
}

func (m *keeps) start() keepsState {
	s := keepsState{root: keepsRoot{main: true, live: only(0)}, present: only(0)}
	if !m.lazy {
		s.place, s.need, s.cloned = placeHere, needCloned, true
	}
	return s
}

func (m *keeps) next(s *keepsState, emit func(string, keepsState)) {
	m.user(s, emit)
	m.others(s, emit)
	m.keep(s, emit)
	m.evict(s, emit)
	m.add(s, emit)
	m.collect(s, emit)
}

// append returns s with one more root, for the caller to change.
func (s *keepsState) append() keepsState {
	to := *s
	to.head++
	return to
}

// readable reports whether the remote has A in a live pack.
func (s *keepsState) readable() bool { return s.root.live&s.present != 0 }

// The violations of keeps.
const (
	neededLost     = "content that the clone needs is nowhere"
	keptUnreadable = "a keep ref reaches content that no live pack has"
)

func (m *keeps) violation(s *keepsState) string {
	switch {
	case s.root.live&^s.present != 0:
		return livePackMissing
	case s.root.keep && !s.readable():
		return keptUnreadable
	case s.root.main && !s.readable():
		return reachableMissing
	case s.need != 0 && s.place != placeHere && !s.readable() && !s.betrayed:
		return neededLost
	}
	return ""
}

func (m *keeps) encode(dst []byte, s *keepsState) []byte {
	r, k, c := &s.root, &s.keeper, &s.collector
	dst = append(dst, s.head, bit(r.main)<<1|bit(r.keep), byte(r.live), r.floor, byte(s.present))
	dst = r.condemned.encode(dst)
	dst = append(dst, byte(s.place)<<4|byte(s.need), bit(s.cloned)<<4|bit(s.proven)<<3|bit(s.betrayed)<<2|bit(s.dropped)<<1|bit(s.deleted), byte(s.session))
	dst = append(dst, byte(k.step), k.base, byte(k.relied), bit(k.want), k.tries)
	return append(dst, byte(c.step)<<4|c.round, c.base, byte(c.condemn), byte(c.todo), byte(c.deleted))
}

func (m *keeps) reached(s *keepsState) milestones {
	var at milestones
	if s.place == placeAway && s.root.keep && s.need != 0 && !s.root.main {
		at |= keptAlone
	}
	if s.session == sessionDone && s.place == placeAway {
		at |= reliedOnAway
	}
	if s.betrayed && !s.readable() {
		at |= promiseBroken
	}
	if s.root.floor > 0 {
		at |= delisted
	}
	return at
}

func (m *keeps) describe(s *keepsState) []part {
	refs := ""
	if s.root.main {
		refs += "main "
	}
	if s.root.keep {
		refs += "keep"
	}
	k, c := &s.keeper, &s.collector
	return []part{
		{"root", facts(fmt.Sprintf("%d: refs", s.head), strings.TrimSpace(refs), "live packs", s.root.live, "condemned", s.root.condemned, "floor", s.root.floor)},
		{"store", facts("has packs", s.present)},
		{"clone", facts("has A", s.place, "needs it", s.need, "session", s.session.String(), "evictor", map[bool]string{true: "read a head that keeps A"}[s.proven])},
		{"keeper", facts("next:", k.step, "S:", rootIf(k.step != keepPlan, k.base), "relies on packs", k.relied)},
		{"collector", facts("next:", c.step, "S:", rootIf(c.step == collectCondemn, c.base), "to condemn: packs", c.condemn,
			"to delete: packs", c.todo, "deleted packs", c.deleted, "round", c.round)},
	}
}
