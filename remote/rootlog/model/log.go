package model

import (
	"cmp"
	"fmt"
	"slices"
)

// log is the machine of the root log: what may happen to names of roots, and
// what a writer that remembers an old head makes of it. Roots have no content
// but the root they follow.
//
// In the beginning there is root 0, and all writers remember it.
type log struct {
	writers  int // 1 or 2; 0: 2
	last     int // number of the last root there can be; 0: 4
	attempts int // of each writer; another begins when another writer won; 0: 2

	truncation truncation // never touches the head
	check      checkAfter // a writer has won

	sureReplies  bool // no reply is lost, and no PUT takes effect later
	withoutCrash bool // no writer crashes between winning and checking
	restore      bool // the store is restored, once, from a backup two roots old
	onlyAcks     bool // a void root that is taken for the head is not looked for

	mutation Mutation
}

// truncation is a way to remove the beginning of the log.
type truncation uint8

// The ways to remove the beginning of the log. The protocol allows the first
// two.
const (
	truncateNothing truncation = iota
	truncateStubs              // in place, by a stub that keeps the name taken
	truncateAny                // in any order
	truncateAscending
	truncateCut // in any order, below a mark that is set first
)

// checkAfter is what a writer looks at once more after it has created a root.
type checkAfter uint8

const (
	checkNothing  checkAfter = iota
	checkPrevious            // that the root before it is still there
	checkCut                 // that the mark is not above it
)

// absent stands for no root.
const absent = -1

// slot is a name of a root in the store.
type slot struct {
	id   int8 // of the root; or absent
	stub bool
}

// rootInfo is what a root says.
type rootInfo struct{ number, previous int8 }

// ids is a set of roots.
type ids uint16

// writer is a writer of the log, and a reader before it writes.
type writer struct {
	step       writeStep
	number     int8 // of the root it takes for the head
	remembered int8 // its id
	own        int8 // id of the root it appends; absent before it is made
	attempt    int8
}

// writeStep is what a writer does next.
type writeStep uint8

// The steps of a writer.
const (
	writeSeek         writeStep = iota // read the root after the one it knows
	writeCreate                        // the root after it
	writeWon                           // look whether it counts
	writeReadBack                      // the name is taken, or the reply did not come
	writeAcknowledged                  // done
	writeStopped                       // crashed, gave up, or told that something is wrong
)

func (s writeStep) String() string {
	return [...]string{"seek the head", "create", "check what it won", "read back", "acknowledged", "stopped"}[s]
}

// mistake is what a writer did wrong.
type mistake uint8

const (
	noMistake mistake = iota
	tookVoid
	falselyRejected
)

// logState is a state of the log machine.
type logState struct {
	slots    [5]slot
	infos    []rootInfo // of each root that anybody made, by its id; never changed, only replaced
	truth    []int8     // the ids of the roots that count, by number; likewise
	cut      int8       // the mark: roots below it may be gone
	writers  [2]writer
	late     ids // roots whose PUT is still under way
	mistake  mistake
	restored bool
}

func (m log) explore(o Options) Result { return explore(m.bounded(), o) }

// bounded returns m with the bounds that are not given.
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

// stopped is a writer that does nothing more.
var stopped = writer{step: writeStopped, own: absent}

func (m *log) next(s *logState, emit func(string, logState)) {
	head := int8(len(s.truth) - 1)
	if int(head) < m.last && s.slots[head+1].id == absent {
		to := *s
		id := to.make(head+1, s.truth[head])
		to.slots[head+1].id = id
		to.count(id)
		emit("somebody: append", to)
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

// make makes a root, which is not in the store yet, and returns its id.
func (s *logState) make(number, previous int8) int8 {
	if len(s.infos) == 16 {
		panic("model: more roots than ids holds")
	}
	s.infos = append(slices.Clip(s.infos), rootInfo{number, previous})
	return int8(len(s.infos) - 1)
}

// count makes a root part of what counts, if it follows the last one that does.
func (s *logState) count(id int8) {
	if last := len(s.truth) - 1; s.infos[id] == (rootInfo{int8(last + 1), s.truth[last]}) {
		s.truth = append(slices.Clip(s.truth), id)
	}
}

// counts reports whether a root is the one of its number that counts.
func (s *logState) counts(number, id int8) bool {
	return int(number) < len(s.truth) && s.truth[number] == id
}

// busy reports whether w is in the middle of something.
func (w writer) busy() bool {
	return w.step != writeSeek && w.step != writeAcknowledged && w.step != writeStopped
}

// truncate removes a root from the beginning of the log.
func (m *log) truncate(s *logState, head int8, emit func(string, logState)) {
	if m.truncation == truncateNothing {
		return
	}
	end := head // what stays
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

// writer is the i-th writer.
func (m *log) writer(s *logState, i int, emit func(string, logState)) {
	to, w := *s, s.writers[i]
	next := &to.writers[i]
	switch w.step {
	case writeSeek:
		m.seek(s, i, emit)
	case writeCreate:
		m.create(s, i, emit)
	case writeWon:
		step := "writer: it counts"
		next.step, next.number, next.remembered = writeAcknowledged, w.number+1, w.own
		if m.check == checkPrevious && s.slots[w.number] != (slot{id: w.remembered}) || m.check == checkCut && w.number+1 < s.cut {
			step = "writer: it does not count, list again"
			*next = m.relist(s, w)
		}
		emit(step, to)
		if !m.withoutCrash {
			*next = stopped
			emit("writer: crash before the check", to)
		}
	case writeReadBack:
		step := "writer: read back: another's"
		switch found := s.slots[w.number+1].id; {
		case found == absent:
			step = "writer: read back: nothing"
			next.step = writeCreate
		case found == w.own && m.mutation == NO_TXID:
			*next = stopped
			to.mistake = falselyRejected
		case found == w.own:
			step = "writer: read back: own root"
			next.step = writeWon
		case int(w.attempt)+1 < m.attempts:
			next.step, next.own, next.attempt = writeSeek, absent, w.attempt+1
		default:
			*next = stopped
		}
		emit(step, to)
	}
}

// seek reads the root after the one that a writer knows, to find the head.
func (m *log) seek(s *logState, i int, emit func(string, logState)) {
	to, w := *s, s.writers[i]
	if int(w.number) == m.last {
		return
	}
	next := &to.writers[i]
	step := "writer: next root is there"
	switch found := s.slots[w.number+1].id; {
	case found != absent && s.infos[found].previous == w.remembered:
		next.number, next.remembered = w.number+1, found
	case found != absent:
		step = "writer: next root does not follow, stop"
		*next = stopped
	case m.check == checkCut && w.number < s.cut:
		step = "writer: the mark is above what it knows, list again"
		*next = m.relist(s, w)
	case s.restored && m.mutation != ROLLBACK_BLIND && s.slots[w.number] != (slot{id: w.remembered}):
		step = "writer: the root it knows is gone, stop"
		*next = stopped
	default:
		step = "writer: head found"
		next.step = writeCreate
		if !m.onlyAcks && !s.counts(w.number, w.remembered) {
			to.mistake = tookVoid
		}
	}
	emit(step, to)
}

// relist is a writer that begins anew, from the last root that a list has.
func (m *log) relist(s *logState, w writer) writer {
	for n := int8(m.last); n >= 0; n-- {
		if top := s.slots[n]; top.id != absent && !top.stub && int(w.attempt)+1 < m.attempts {
			return writer{step: writeSeek, number: n, remembered: top.id, own: absent, attempt: w.attempt + 1}
		}
	}
	return stopped
}

// create asks the store to create a root.
func (m *log) create(s *logState, i int, emit func(string, logState)) {
	tried, w := *s, s.writers[i]
	if w.own == absent {
		w.own = tried.make(w.number+1, w.remembered)
	}
	tried.writers[i] = w
	next := &tried.writers[i]
	if s.slots[w.number+1].id != absent {
		next.step = writeReadBack
		if m.mutation == LINK_LIES {
			next.step, next.number, next.remembered = writeAcknowledged, w.number+1, w.own
		}
		emit("writer: create: the name is taken", tried)
		return
	}
	created := tried
	created.slots[w.number+1].id = w.own
	created.count(w.own)
	created.writers[i].step = writeWon
	emit("writer: create", created)
	if !m.sureReplies {
		created.writers[i].step = writeReadBack
		created.late |= 1 << w.own
		emit("writer: create, the reply is lost", created)
		next.step = writeReadBack
		tried.late |= 1 << w.own
		emit("writer: create, no reply and no effect yet", tried)
	}
}

// What may go wrong with the log.
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
		if s.restored && m.mutation == ROLLBACK_BLIND && int(number) > len(s.truth) {
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

func (m *log) describe(s *logState) []Part {
	names, made, truth := "", "", ""
	for n, at := range s.slots[:m.last+1] {
		switch {
		case at.id == absent:
			names += fmt.Sprintf("; root/%d absent", n)
		case at.stub:
			names += fmt.Sprintf("; root/%d a stub of %s", n, rootName(at.id))
		default:
			names += fmt.Sprintf("; root/%d is %s", n, rootName(at.id))
		}
	}
	for id, info := range s.infos {
		made += fmt.Sprintf("; %s is root/%d after %s", rootName(int8(id)), info.number, rootName(info.previous))
	}
	for _, id := range s.truth {
		truth += "; " + rootName(id)
	}
	parts := []Part{{"store", names[2:]}, {"made", made[2:]}, {"counts", truth[2:]}}
	if m.truncation == truncateCut {
		parts = append(parts, Part{"mark", fmt.Sprint(s.cut)})
	}
	for i, w := range s.writers[:m.writers] {
		parts = append(parts, Part{fmt.Sprint("writer ", i+1), fmt.Sprintf("next: %v; knows root/%d %s; own %s; attempt %d",
			w.step, w.number, rootName(w.remembered), rootName(w.own), w.attempt+1)})
	}
	if !m.sureReplies {
		late := ""
		for id := range int8(len(s.infos)) {
			if s.late>>id&1 != 0 {
				late += " " + rootName(id)
			}
		}
		parts = append(parts, Part{"under way", "PUTs of:" + late})
	}
	return parts
}

// rootName is a letter for each root.
func rootName(id int8) string {
	if id == absent {
		return "none"
	}
	return string(rune('a' + id))
}
