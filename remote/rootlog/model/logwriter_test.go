package model

// writer is a writer of the log. It is a reader until it writes.
type writer struct {
	step       writeStep
	number     int8 // of the root that it takes for the head
	remembered int8 // ID of that root
	own        int8 // ID of the root that it appends; absent before it is made
	attempt    int8
}

// writeStep is the next step of a writer.
type writeStep uint8

// The steps of a writer.
const (
	writeSeek         writeStep = iota // read the root after the known one
	writeCreate                        // create the root after the head
	writeWon                           // check whether the own root counts
	writeReadBack                      // the name is taken, or the reply is lost
	writeAcknowledged                  // done
	writeStopped                       // crashed, gave up, or stopped at an error
)

func (s writeStep) String() string {
	return [...]string{"seek the head", "create", "check what it won", "read back", "acknowledged", "stopped"}[s]
}

// stopped is a writer without further steps.
var stopped = writer{step: writeStopped, own: absent}

// busy reports whether w is in the middle of an append.
func (w writer) busy() bool {
	return w.step != writeSeek && w.step != writeAcknowledged && w.step != writeStopped
}

// writer emits the steps of the i-th writer.
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
		case found == w.own && m.mutation == ignoreTxid:
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

// seek reads the root after the known one, to find the head.
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
	case s.restored && m.mutation != trustAbsence && s.slots[w.number] != (slot{id: w.remembered}):
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

// relist returns w in its next attempt, at the last root of a list. After the last
// attempt, or if no root is left, the writer stops.
func (m *log) relist(s *logState, w writer) writer {
	for n := int8(m.last); n >= 0; n-- {
		if top := s.slots[n]; top.id != absent && !top.stub && int(w.attempt)+1 < m.attempts {
			return writer{step: writeSeek, number: n, remembered: top.id, own: absent, attempt: w.attempt + 1}
		}
	}
	return stopped
}

// create emits the outcomes of a request to create a root.
func (m *log) create(s *logState, i int, emit func(string, logState)) {
	tried, w := *s, s.writers[i]
	if w.own == absent {
		w.own = tried.make(w.number+1, w.remembered)
	}
	tried.writers[i] = w
	next := &tried.writers[i]
	if s.slots[w.number+1].id != absent {
		next.step = writeReadBack
		if m.mutation == believeSuccess {
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
