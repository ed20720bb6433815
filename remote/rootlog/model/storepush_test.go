package model

import "slices"

// storePusher is a push, and the pushes that resume it.
type storePusher struct {
	step    pushStep
	base    uint8 // root that the next append follows
	start   uint8 // S0: the head when the first own pack was begun
	relied  set   // live(S)
	own     set   // uploaded packs
	missing objects
	replans uint8
}

// pushStep is the next step of a pusher.
type pushStep uint8

// The steps of a push.
const (
	pushPlan   pushStep = iota // 1: walk, and look up which objects are missing
	pushUpload                 // 2
	pushAppend                 // 3 and 4: check the claim at a new head, append a root
	pushDone
	pushGaveUp
)

func (s pushStep) String() string {
	return [...]string{"plan", "upload", "check claim and append", "done", "gave up"}[s]
}

// neverFloored is a start above every floor.
const neverFloored = 99

// pusher emits the steps of the i-th pusher.
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
		if m.crash && p.own != 0 && int(p.replans) < m.replans && (m.mutation == resumeAtHead || m.mutation == resumeAtHeadIfPresent) {
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
	if m.mutation != appendUnchecked {
		p.own &^= root.condemned.names()
		if p.start < root.floor && m.mutation != ignoreFloor {
			p.own = 0
		}
	}
	if m.mutation == resumeAtHeadIfPresent {
		p.own &= s.present
	}
	if p.own == 0 || p.start == neverFloored {
		p.start = s.head
	}
	found := s.packs.in(root.live)
	if m.mutation == stopAtPresent && found&history != 0 {
		found |= content
	}
	certain := root.closure() // present without a look-up
	if m.mutation == trustExpired {
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

// cell returns the value that must be unchanged for an append.
func (s *storeState) cell(m *store) uint8 {
	if m.mutation == separateCells {
		return uint8(s.root.refs)
	}
	return s.head
}

// relied returns the sets of packs that a plan may rely on for the objects that it
// does not send. In the protocol, it is one set.
func (m *store) relied(s *storeState, there, certain objects) []set {
	switch m.mutation {
	case relyOnLookedUp:
		there &^= certain
	case relyPerObject:
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
	case m.mutation == reuseNames:
		n = 2 // the name of the first pushed pack
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

// publish is steps 3 and 4 of a push. An append needs an unchanged head. At a new
// head, the pusher checks its claim first.
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
		if m.mutation != forgetCheckpoints {
			p.relied |= p.own
		}
		p.base, p.start, p.own = to.head, to.head, 0
		to.pushers[i] = p
		emit("push: append a checkpoint", to)
	}
}

// checkClaim is step 3 of a push, at a head other than S. It corresponds to
// Claim.Check of package rootlog.
func (m *store) checkClaim(s *storeState, i int, emit func(string, storeState)) {
	to, p := *s, s.pushers[i]
	floored := p.start < s.root.floor && m.mutation != ignoreFloor
	if p.own == 0 && m.mutation != relyOnLookedUp {
		floored = false
	}
	holds := p.relied&^s.root.live == 0 && p.own&s.root.condemned.names() == 0 && !floored
	step := "push: check claim: it holds"
	switch {
	case holds || m.mutation == appendUnchecked:
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
