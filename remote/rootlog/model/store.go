package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

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

	mutation Mutation
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

// storePusher is a push, and the pushes that resume it.
type storePusher struct {
	step    pushStep
	base    uint8 // root that the next append follows
	start   uint8 // S0: head when the first of own was begun
	relied  set   // live(S)
	own     set   // packs it sent
	missing objects
	replans uint8
}

// pushStep is what a pusher does next.
type pushStep uint8

// The steps of a push.
const (
	pushPlan   pushStep = iota // 1: walk, look up, and find out what is missing
	pushUpload                 // 2
	pushAppend                 // 3 and 4: check the claim if the head is another, append a root
	pushDone
	pushGaveUp
)

func (s pushStep) String() string {
	return [...]string{"plan", "upload", "check claim and append", "done", "gave up"}[s]
}

// neverFloored stands for a start that no floor is above.
const neverFloored = 99

// storeCollector is a collector of garbage.
type storeCollector struct {
	step     collectStep
	base     uint8
	start    uint8     // S0 of repacked
	snapshot storeRoot // what is marked; only before pushMark
	condemn  set
	orphans  set // those of condemn that were never live
	repacked set // pack with what is still used of others
	todo     set // names to delete
	deleted  set
	round    uint8
}

// collectStep is what a collector does next.
type collectStep uint8

// The steps of a collector.
const (
	collectLook    collectStep = iota // at the head
	collectMark                       // and find out what to condemn; upload what is repacked
	collectCondemn                    // append a root that does
	collectDelete                     // what is condemned
	collectDelist                     // what was deleted
	collectDone
	collectRoot // append the root that delists; the store machine has no such step
)

func (s collectStep) String() string {
	return [...]string{"look at the head", "mark", "condemn", "delete", "delist", "done", "delist, append"}[s]
}

// aborted is the round of a collector that found damage.
const aborted = 9

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

func (m store) explore(o Options) Result { return explore(m.bounded(), o) }

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
	if m.mutation == UNDO_NOCHECK {
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
		if m.mutation == HOLD_GRACE || m.mutation == UNCONDEMN {
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
		case m.mutation == UNCONDEMN && pushedObjects&^s.readable() != 0:
			to.hold = holdGone
			emit("hold: it is gone", to)
		case m.mutation == UNCONDEMN:
			if pushedObjects&^s.packs.in(root.live) != 0 {
				appended.root.live |= root.condemned.names()
				appended.root.condemned = nil
			}
			emit("hold: append, and take packs back", appended)
		case s.head == s.holdBase || m.mutation == HOLD_GRACE:
			emit("hold: append", appended)
		default:
			to.hold = holdPlan
			emit("hold: lost the race", to)
		}
	}
}

// pusher is the i-th push.
func (m *store) pusher(s *storeState, i int, emit func(string, storeState)) {
	p := s.pushers[i]
	switch p.step {
	case pushPlan:
		m.plan(s, i, emit)
	case pushUpload:
		m.upload(s, i, emit)
		if m.checkpoints && p.own != 0 {
			m.publish(s, i, emit)
		}
	case pushAppend:
		m.publish(s, i, emit)
		if m.crash && p.own != 0 && int(p.replans) < m.replans && (m.mutation == RESUME_NEWBASE || m.mutation == RESUME_HEAD) {
			to := *s
			to.pushers[i] = storePusher{start: neverFloored, own: p.own, replans: p.replans + 1}
			emit("push: crash before the append, resume", to)
		}
	}
}

// plan is step 1 of a push, at S = head.
func (m *store) plan(s *storeState, i int, emit func(string, storeState)) {
	root, p := &s.root, s.pushers[i]
	p.step, p.base = pushUpload, s.cell(m)
	if m.mutation != NO_RECHECK {
		p.own &^= root.condemned.names()
		if p.start < root.floor && m.mutation != NO_FLOOR {
			p.own = 0
		}
	}
	if m.mutation == RESUME_HEAD {
		p.own &= s.present
	}
	if p.own == 0 || p.start == neverFloored {
		p.start = s.head
	}
	found := s.packs.in(root.live)
	if m.mutation == STOP_AT_PRESENT && found&history != 0 {
		found |= content
	}
	certain := root.closure() // is not looked up
	if m.mutation == EXP_WALK {
		all := *root
		all.expired = false
		certain = all.closure()
	}
	own := s.packs.in(p.own)
	p.missing = pushedObjects &^ (found | certain | own)
	if p.missing == 0 {
		p.step = pushAppend
	}
	for _, relied := range m.relied(s, pushedObjects&^p.missing&^own, certain) {
		to := *s
		p.relied = relied
		to.pushers[i] = p
		emit("push: plan", to)
	}
}

// cell is what an append is conditional on.
func (s *storeState) cell(m *store) uint8 {
	if m.mutation == SEPARATE_CELLS {
		return uint8(s.root.refs)
	}
	return s.head
}

// relied has the sets of packs that a plan may rely on for what it does not
// send: by the protocol, there is one.
func (m *store) relied(s *storeState, there, certain objects) []set {
	switch m.mutation {
	case ANCHOR:
		there &^= certain
	case U_ALL:
	default:
		return []set{s.root.live}
	}
	choices := []set{0} // one pack for each object
	for _, object := range []objects{history, content} {
		if there&object == 0 {
			continue
		}
		var more []set
		for _, chosen := range choices {
			for n := range s.root.live.all() {
				if s.packs[n]&object != 0 {
					more = append(more, chosen|only(n))
				}
			}
		}
		choices = more
	}
	return choices
}

// upload is step 2 of a push.
func (m *store) upload(s *storeState, i int, emit func(string, storeState)) {
	to, p := *s, s.pushers[i]
	send := p.missing
	if m.checkpoints {
		send &= -send // one object
	}
	n := len(s.packs)
	switch {
	case m.mutation == NAME_REUSE:
		n = 2 // of the first pack that is pushed
		to.packs = slices.Clone(s.packs)
		if len(to.packs) == n {
			to.packs = append(to.packs, 0)
		}
		to.packs[n] |= send
	case n < m.packs:
		to.packs, _ = s.packs.with(send)
	default:
		return
	}
	to.present |= only(n)
	if m.latePut {
		to.latePut |= only(n)
	}
	p.own |= only(n)
	p.missing &^= send
	if p.missing == 0 {
		p.step = pushAppend
	}
	to.pushers[i] = p
	emit("push: upload", to)
}

// publish is steps 3 and 4 of a push. An append is conditional on the head: a
// pusher that sees another one checks its claim first.
func (m *store) publish(s *storeState, i int, emit func(string, storeState)) {
	p := s.pushers[i]
	if s.cell(m) != p.base {
		m.checkClaim(s, i, emit)
		return
	}
	if p.step == pushAppend {
		to := s.append()
		to.root.refs |= refPushed
		to.root.live |= p.own
		to.pushers[i] = storePusher{step: pushDone, replans: p.replans}
		emit("push: append", to)
		if m.crash && p.own != 0 && int(p.replans) < m.replans {
			to.pushers[i] = storePusher{start: p.start, own: p.own, replans: p.replans + 1}
			emit("push: append, crash before the reply, resume", to)
		}
	}
	if m.checkpoints && p.own != 0 {
		to := s.append()
		to.root.live |= p.own
		if m.mutation != CKPT_NOCHECK {
			p.relied |= p.own
		}
		p.base, p.start, p.own = to.head, to.head, 0
		to.pushers[i] = p
		emit("push: append a checkpoint", to)
	}
}

// checkClaim is step 3 of a push at another head than S, as Claim.Check of
// package rootlog has it.
func (m *store) checkClaim(s *storeState, i int, emit func(string, storeState)) {
	to, p := *s, s.pushers[i]
	floored := p.start < s.root.floor && m.mutation != NO_FLOOR
	if p.own == 0 && m.mutation != ANCHOR {
		floored = false
	}
	holds := p.relied&^s.root.live == 0 && p.own&s.root.condemned.names() == 0 && !floored
	step := "push: check claim: it holds"
	switch {
	case holds || m.mutation == NO_RECHECK:
		to.pushers[i].base = s.head
	case int(p.replans) < m.replans:
		step = "push: check claim: plan again"
		to.pushers[i] = storePusher{start: p.start, own: p.own, replans: p.replans + 1}
	default:
		step = "push: check claim: give up"
		to.pushers[i] = storePusher{step: pushGaveUp}
	}
	emit(step, to)
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

func (m *store) describe(s *storeState) []Part {
	parts := []Part{
		{"root", facts(fmt.Sprintf("%d: refs", s.head), s.root.refs, "live packs", s.root.live, "condemned", s.root.condemned, "floor", s.root.floor)},
		{"store", facts("has packs", s.present)},
		{"packs", describeContents(s.packs)},
	}
	if m.expire {
		parts = append(parts, Part{"main", map[bool]string{false: "has its content", true: "is expired"}[s.root.expired]})
	}
	if m.hold {
		parts = append(parts, Part{"hold", [...]string{"next: plan", fmt.Sprint("next: append after root ", s.holdBase), "done", "gone"}[s.hold]})
	}
	for i, p := range s.pushers[:m.pushers] {
		parts = append(parts, Part{fmt.Sprint("pusher ", i+1), facts("next:", p.step, "S:", rootIf(p.step != pushPlan && p.step < pushDone, p.base), "S0:", rootIf(p.own != 0, p.start),
			"relies on packs", p.relied, "own packs", p.own, "missing", p.missing, "planned again:", p.replans)})
	}
	for i, c := range s.collectors[:m.collectors] {
		parts = append(parts, Part{fmt.Sprint("collector ", i+1), facts("next:", c.step, "S:", rootIf(c.step == collectMark || c.step == collectCondemn, c.base), "S0:", rootIf(c.repacked != 0, c.start),
			"to condemn: packs", c.condemn, "repacked:", c.repacked, "to delete: packs", c.todo, "deleted packs", c.deleted, "round", c.round)})
	}
	if m.latePut || m.lateDelete {
		parts = append(parts, Part{"under way", facts("a second PUT of packs", s.latePut, "a second DELETE of packs", s.lateDelete)})
	}
	return parts
}

func describeContents(packs contents) string {
	var text []string
	for n, c := range packs {
		text = append(text, fmt.Sprintf("%d has %v", n, c))
	}
	return strings.Join(text, "; ")
}
