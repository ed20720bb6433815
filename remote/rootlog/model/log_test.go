package model

import (
	"cmp"
	"slices"
)

// log models the root log: the names of roots in the store, and writers that
// remember an old head. A root only names the root before it.
//
// At the start there is root 0, and all writers remember it.
type log struct {
	writers  int // 1 or 2; default 2
	last     int // the largest number of a root; default 4
	attempts int // per writer; a lost race starts the next attempt; default 2

	truncation truncation // never touches the head
	check      checkAfter // a writer has created a root

	sureReplies  bool // no reply is lost, and no PUT takes effect late
	withoutCrash bool // no writer crashes between creating and checking
	restore      bool // the store is restored once from a backup two roots old
	onlyAcks     bool // taking a void root for the head is no violation

	mutation mutation
}

// truncation is a way to remove the beginning of the log.
type truncation uint8

// The ways to remove the beginning of the log. The protocol allows the first
// two.
const (
	truncateNothing truncation = iota
	truncateStubs              // replace a root by a stub, so its name stays taken
	truncateAny                // in any order
	truncateAscending
	truncateCut // set a mark first, then remove roots below it in any order
)

// checkAfter is a check that a writer makes after it has created a root.
type checkAfter uint8

const (
	checkNothing  checkAfter = iota
	checkPrevious            // the root before it is still there
	checkCut                 // the mark is not above it
)

// absent stands for no root.
const absent = -1

// slot has the content of a root name in the store.
type slot struct {
	id   int8 // of the root, or absent
	stub bool
}

// rootInfo has the number of a root and the ID of the root before it.
type rootInfo struct{ number, previous int8 }

// ids is a set of roots.
type ids uint16

// mistake is an error that a writer made.
type mistake uint8

const (
	noMistake mistake = iota
	tookVoid
	falselyRejected
)

// logState is a state of the log machine.
type logState struct {
	slots    [5]slot
	infos    []rootInfo // of all roots ever made, by ID; replaced, never changed
	truth    []int8     // the IDs of the roots that count, by number; replaced, never changed
	cut      int8       // the mark: roots below it may be removed
	writers  [2]writer
	late     ids // roots whose PUT is still under way
	mistake  mistake
	restored bool
}

var _ machine[logState] = (*log)(nil)

func (m log) explore(o options) result { return explore(m.bounded(), o) }

// bounded returns m with defaults for the unset bounds.
func (m log) bounded() *log {
	m.writers, m.last, m.attempts = cmp.Or(m.writers, 2), cmp.Or(m.last, 4), cmp.Or(m.attempts, 2)
	return &m
}

func (m *log) start() logState {
	s := logState{infos: []rootInfo{{0, absent}}, truth: []int8{0}}
	for i := 1; i < len(s.slots); i++ {
		s.slots[i].id = absent
	}
	for i := range s.writers {
		s.writers[i].own = absent
	}
	return s
}

func (m *log) next(s *logState, emit func(string, logState)) {
	head := int8(len(s.truth) - 1)
	if int(head) < m.last && s.slots[head+1].id == absent {
		to := *s
		id := to.make(head+1, s.truth[head])
		to.slots[head+1].id = id
		to.count(id)
		emit("user: append", to)
	}
	m.truncate(s, head, emit)
	if m.restore && !s.restored && head >= 2 && !slices.ContainsFunc(s.writers[:m.writers], writer.busy) {
		to := *s
		for i := head - 1; int(i) < len(to.slots); i++ {
			to.slots[i].id = absent
		}
		to.truth = s.truth[:head-1]
		to.restored = true
		emit("store: restored from a backup two roots old", to)
	}

	for i := range m.writers {
		if i == 0 || s.writers[1] != s.writers[0] {
			m.writer(s, i, emit)
		}
	}

	for id := range int8(len(s.infos)) {
		if number := s.infos[id].number; s.late>>id&1 != 0 && s.slots[number].id == absent {
			to := *s
			to.slots[number].id = id
			to.count(id)
			to.late &^= 1 << id
			emit("store: a PUT takes effect late", to)
		}
	}
}

// make adds a root to infos, without storing it, and returns its ID.
func (s *logState) make(number, previous int8) int8 {
	if len(s.infos) == 16 {
		panic("model: more roots than ids holds")
	}
	s.infos = append(slices.Clip(s.infos), rootInfo{number, previous})
	return int8(len(s.infos) - 1)
}

// count appends a root to truth if it follows the last root there.
func (s *logState) count(id int8) {
	if last := len(s.truth) - 1; s.infos[id] == (rootInfo{int8(last + 1), s.truth[last]}) {
		s.truth = append(slices.Clip(s.truth), id)
	}
}

// counts reports whether truth has a root at its number.
func (s *logState) counts(number, id int8) bool {
	return int(number) < len(s.truth) && s.truth[number] == id
}

// truncate removes a root from the beginning of the log.
func (m *log) truncate(s *logState, head int8, emit func(string, logState)) {
	if m.truncation == truncateNothing {
		return
	}
	end := head // the first root that stays
	if m.truncation == truncateCut {
		if end > s.cut {
			to := *s
			to.cut = end
			emit("truncation: set the mark", to)
		}
		end = min(end, s.cut)
	}

	for n := range end {
		if s.slots[n].id == absent || s.slots[n].stub {
			continue
		}
		to := *s
		if m.truncation == truncateStubs {
			to.slots[n].stub = true
			emit("truncation: make a stub", to)
		} else {
			to.slots[n].id = absent
			emit("truncation: remove a root", to)
		}
		if m.truncation == truncateAscending {
			break
		}
	}
}

// The violations of the log.
const (
	notInHistory   = "acknowledged push is not in the history"
	voidHead       = "void root taken for the head"
	falseRejection = "rejected, but its root is in the log"
	holeInLog      = "acknowledged root beyond the end of the log"
)

func (m *log) violation(s *logState) string {
	switch s.mistake {
	case tookVoid:
		return voidHead
	case falselyRejected:
		return falseRejection
	}
	for _, w := range s.writers[:m.writers] {
		if w.step != writeAcknowledged {
			continue
		}
		number := s.infos[w.own].number
		if !s.restored && !s.counts(number, w.own) {
			return notInHistory
		}
		if s.restored && m.mutation == trustAbsence && int(number) > len(s.truth) {
			return holeInLog
		}
	}
	return ""
}

func (m *log) encode(dst []byte, s *logState) []byte {
	for _, at := range s.slots[:m.last+1] {
		dst = append(dst, byte(at.id)<<1|bit(at.stub))
	}
	dst = append(dst, byte(len(s.infos)))
	for _, info := range s.infos {
		dst = append(dst, byte(info.number)<<5|byte(info.previous+1))
	}
	dst = append(dst, byte(len(s.truth)))
	for _, id := range s.truth {
		dst = append(dst, byte(id))
	}
	dst = append(dst, byte(s.cut), byte(s.mistake)<<1|bit(s.restored), byte(s.late), byte(s.late>>8))
	return appendSorted(dst, m.writers, func(dst []byte, i int) []byte {
		w := &s.writers[i]
		return append(dst, byte(w.step)<<4|byte(w.number), byte(w.remembered), byte(w.own), byte(w.attempt))
	})
}

func (m *log) reached(s *logState) milestones {
	var at milestones
	for _, w := range s.writers[:m.writers] {
		if w.step == writeAcknowledged {
			at |= acknowledged
		}
	}
	switch first := s.slots[0]; {
	case first.id == absent:
		at |= cutOff
	case first.stub:
		at |= stubbed
	}
	if s.restored {
		at |= restored
	}
	return at
}
