package model

import (
	"cmp"
	"slices"
)

// keys models changes of the keys of an encrypted remote, beside pushes and a collector.
// Refs are left out: each push makes one pack live, and a collector may repack all live
// packs into one.
//
// Process 1 removes a recipient, with a new epoch, and pushes. Process 2 adds a recipient,
// and pushes. At the start, pack 0 is live, and keyset 0 has the key of its epoch. Both
// copies of a keyset are one file of the model. A keyset's number is also the ID of the
// epoch key that it brought, so two changes that compete never bring the same key.
type keys struct {
	pushers, changers int // 0 to 2 each, of the processes 1 and 2
	rounds            int // of the collector; default 1
	replans           int // how often a push plans again or resumes, and a change is made again; default 1
	packs, keysets    int // the largest numbers; default 5 and 4

	crash      bool // pushers crash, and resume from their journals
	bothRemove bool // process 2 removes a recipient, too

	mutation mutation
}

// keysRoot is a root.
type keysRoot struct {
	live          set   // packs
	keyset        uint8 // the live keyset
	epoch         uint8 // the epoch, by the keyset that brought its key
	since         uint8 // number of the root that began the epoch
	condemned     condemnation
	condemnedKeys condemnation // keysets
	floor         uint8
	leaked        bool // a root named a pack of an earlier epoch
}

// oldest returns the smallest start of files that a new root may name.
func (r *keysRoot) oldest() uint8 { return max(r.floor, r.since) }

// keyset is the content of a keyset.
type keyset struct {
	changes set // by the processes that made them
	epochs  set
}

// keysPusher is a push, and the pushes that resume it.
type keysPusher struct {
	step    pushStep
	base    uint8 // root that the next append follows
	start   uint8 // S0
	own     set
	replans uint8
}

// keysChanger makes a change of keys.
type keysChanger struct {
	step  changeStep
	base  uint8
	start uint8 // the head before the new keyset was put
	from  uint8 // the keyset from which the new one is made
	made  uint8 // the new keyset
	tries uint8
}

// changeStep is the next step of a change of keys.
type changeStep uint8

// The steps of a change of keys.
const (
	changeLook   changeStep = iota // read the head and its keyset
	changePut                      // put the new keyset
	changeAppend                   // append a root that names it, and condemns the old one
	changeDone
	changeGaveUp
)

func (s changeStep) String() string {
	return [...]string{"look at the head", "put a keyset", "check and append", "done", "gave up"}[s]
}

// keysProcess is a process that pushes and changes keys.
type keysProcess struct {
	epoch   uint8 // of the files that it uploads from now on
	pusher  keysPusher
	changer keysChanger
}

// keysCollector is a collector of garbage.
type keysCollector struct {
	step        collectStep
	base        uint8
	start       uint8 // S0 of repacked
	condemn     set
	condemnKeys set
	repacked    set
	todo        set // packs to delete
	todoKeys    set
	deleted     set
	deletedKeys set
	round       uint8
}

// keysState is a state of the keys machine.
type keysState struct {
	head        uint8
	root        keysRoot
	present     set     // packs in the store
	packs       []uint8 // the epoch of each pack that ever existed; replaced, never changed
	presentKeys set
	keysets     []keyset // that ever existed; replaced, never changed
	appended    set      // changes in the log, by their processes
	processes   [2]keysProcess
	collector   keysCollector
}

var _ machine[keysState] = (*keys)(nil)

func (m keys) explore(o options) result { return explore(m.bounded(), o) }

// bounded returns m with defaults for the unset bounds.
func (m keys) bounded() *keys {
	m.rounds, m.replans, m.packs, m.keysets = cmp.Or(m.rounds, 1), cmp.Or(m.replans, 1), cmp.Or(m.packs, 5), cmp.Or(m.keysets, 4)
	return &m
}

func (m *keys) start() keysState {
	return keysState{
		root: keysRoot{live: only(0)}, present: only(0), packs: []uint8{0},
		presentKeys: only(0), keysets: []keyset{{epochs: only(0)}},
	}
}

func (m *keys) next(s *keysState, emit func(string, keysState)) {
	for i := range m.pushers {
		m.pusher(s, i, emit)
	}
	for i := range m.changers {
		m.changer(s, i, emit)
	}
	m.collect(s, emit)
}

// append returns s with one more root, for the caller to change.
func (s *keysState) append() keysState {
	to := *s
	to.head++
	return to
}

// upload adds a pack of an epoch to the store. It returns the new state and the set of the pack.
func (s *keysState) upload(epoch uint8) (to keysState, pack set) {
	to, pack = *s, only(len(s.packs))
	to.packs = append(slices.Clip(s.packs), epoch)
	to.present |= pack
	return to, pack
}

// name makes packs live in the last root. It notes a pack that keys of an earlier epoch open.
func (s *keysState) name(packs set) {
	for n := range (packs &^ s.root.live).all() {
		if s.keysets[s.root.keyset].epochs.has(int(s.packs[n])) && s.packs[n] != s.root.epoch {
			s.root.leaked = true
		}
	}
	s.root.live |= packs
}

// The violations of keys.
const (
	readableAfterRemoval = "pack named after a removal opens with the epoch before it"
	changeLost           = "change of keys lost"
	liveKeysetMissing    = "live keyset missing"
	liveWithoutKey       = "live pack without its key in the live keyset"
)

func (m *keys) violation(s *keysState) string {
	root := &s.root
	live := s.keysets[root.keyset]
	switch {
	case root.live&^s.present != 0:
		return livePackMissing
	case !s.presentKeys.has(int(root.keyset)):
		return liveKeysetMissing
	case live.changes != s.appended:
		return changeLost
	case root.leaked:
		return readableAfterRemoval
	}
	for n := range root.live.all() {
		if !live.epochs.has(int(s.packs[n])) {
			return liveWithoutKey
		}
	}
	return ""
}

func (m *keys) encode(dst []byte, s *keysState) []byte {
	r := &s.root
	dst = append(dst, s.head, byte(r.live), r.keyset, r.epoch, r.since, r.floor, bit(r.leaked), byte(s.present), byte(s.presentKeys), byte(s.appended))
	dst = r.condemnedKeys.encode(r.condemned.encode(dst))
	dst = append(append(dst, byte(len(s.packs))), s.packs...)
	dst = append(dst, byte(len(s.keysets)))
	for _, k := range s.keysets {
		dst = append(dst, byte(k.changes), byte(k.epochs))
	}
	for _, p := range s.processes {
		dst = append(dst, p.epoch, byte(p.pusher.step), p.pusher.base, p.pusher.start, byte(p.pusher.own), p.pusher.replans)
		dst = append(dst, byte(p.changer.step), p.changer.base, p.changer.start, p.changer.from, p.changer.made, p.changer.tries)
	}
	c := &s.collector
	return append(dst, byte(c.step)<<4|c.round, c.base, c.start, byte(c.condemn), byte(c.condemnKeys), byte(c.repacked),
		byte(c.todo), byte(c.todoKeys), byte(c.deleted), byte(c.deletedKeys))
}

func (m *keys) reached(s *keysState) milestones {
	var at milestones
	for _, p := range s.processes[:m.pushers] {
		if p.pusher.step == pushDone {
			at |= pushed
			if p.pusher.replans > 0 {
				at |= pushedAfterReplan
			}
		}
	}
	if s.root.since > 0 {
		at |= rotated
	}
	if s.appended.len() == 2 {
		at |= changedTwice
	}
	if s.root.floor > 0 {
		at |= delisted
	}
	if !s.presentKeys.has(0) {
		at |= keysetDeleted
	}
	return at
}
