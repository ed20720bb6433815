package model

// user emits what the user of the clone does by itself: dropping a name, and bringing content here.
func (m *keeps) user(s *keepsState, emit func(string, keepsState)) {
	if s.need&needCloned != 0 && !s.dropped {
		to := *s
		to.need &^= needCloned
		to.dropped = true
		emit("user: drop the cloned branch", to)
	}
	if s.place == placeAway && s.readable() {
		to := *s
		to.place, to.betrayed = placeHere, false
		emit("user: bring the content here", to)
	}

	// A local collection forgets what nobody needs. It waits for sessions.
	if s.need == 0 && s.place != placeNowhere && s.cloned && (s.session == sessionIdle || s.session == sessionDone) {
		to := *s
		to.place = placeNowhere
		emit("clone: forget unneeded content", to)
	}
}

// others emits what other users of the remote do.
func (m *keeps) others(s *keepsState, emit func(string, keepsState)) {
	if s.root.main {
		to := s.append()
		to.root.main = false
		emit("another: delete main", to)
	}
	if s.root.keep && !s.deleted {
		to := s.append()
		to.root.keep, to.deleted = false, true
		to.betrayed = s.place == placeAway || s.proven
		emit("another: delete the keep ref", to)
	}
}

// keep emits the steps that move the keep ref.
func (m *keeps) keep(s *keepsState, emit func(string, keepsState)) {
	to, k := *s, s.keeper
	to.keeper = keeper{tries: k.tries + 1}
	switch {
	case k.step == keepPlan && int(k.tries) < m.tries:
		m.planKeep(s, emit)
	case k.step == keepPlan:
	case s.head == k.base:
		to.head++
		to.root.keep, to.betrayed = k.want, s.betrayed && !k.want
		if !s.cloned {
			to.place, to.need, to.cloned = placeAway, needCloned, true
		}
		emit("keep ref: append", to)
	case !k.want, m.mutation == keepFromCondemned, k.relied&^s.root.live == 0:
		to.keeper = k
		to.keeper.base = s.head
		emit("keep ref: check: it holds", to)
	default:
		emit("keep ref: check: give up", to)
	}
}

// planKeep emits the choices of a new keep ref at the head.
func (m *keeps) planKeep(s *keepsState, emit func(string, keepsState)) {
	to := *s
	if !s.cloned && !s.root.main {
		return // there is nothing to clone
	}
	if !s.cloned && m.mutation == cloneUnkept {
		to.place, to.need, to.cloned = placeAway, needCloned, true
		emit("clone --lazy: no keep ref", to)
	}

	// A keep ref is made only from live packs.
	to = *s
	to.keeper = keeper{step: keepAppend, base: s.head, relied: s.root.live, tries: s.keeper.tries}
	if !s.root.keep && (s.root.live != 0 || m.mutation == keepFromCondemned) {
		to.keeper.want = true
		emit("keep ref: plan to make it", to)
	}

	// It is dropped only when nothing is away, and nothing about to be.
	covers := s.place == placeAway || s.proven
	switch m.mutation {
	case keepNeeded:
		covers = s.need != 0
	case keepCloned:
		covers = covers && s.need&needCloned != 0
	case evictUnlocked:
		covers = s.place == placeAway
	}
	if s.root.keep && !covers && s.cloned {
		to.keeper.want = false
		emit("keep ref: plan to drop it", to)
	}
}

// evict emits the steps that give A away. The lock of the clone keeps its keeper from dropping the keep ref between them.
func (m *keeps) evict(s *keepsState, emit func(string, keepsState)) {
	to := *s
	if s.proven {
		to.proven, to.place = false, placeAway
		if s.place != placeHere {
			to.place = s.place
		}
		emit("evict: give away", to)
		return
	}
	kept := s.root.keep && (s.keeper.step == keepPlan || s.keeper.want || m.mutation == evictUnlocked)
	if m.mutation == evictUnkept {
		kept = true
	}
	if s.place == placeHere && kept && s.readable() {
		to.proven, to.betrayed = true, false
		emit("evict: read a head that keeps it", to)
	}
}

// add emits the steps of a session that adds the bytes of A in a commit.
func (m *keeps) add(s *keepsState, emit func(string, keepsState)) {
	to := *s
	switch s.session {
	case sessionIdle:
		if !s.cloned {
			return
		}
		switch s.place {
		case placeAway:
			to.session = sessionMetAway
			emit("add: content is away", to)
		case placeHere:
			to.session = sessionStored
			emit("add: content is here", to)
		case placeNowhere:
			to.place, to.session = placeHere, sessionStored
			emit("add: store", to)
		}

	case sessionMetAway:
		if s.root.keep || m.mutation == trustAway {
			to.session, to.betrayed = sessionTrusts, false
			emit("add: trust the head, which keeps it", to)
		}
		to.session, to.place = sessionStored, placeHere
		emit("add: store the bytes again", to)

	case sessionStored, sessionTrusts:
		to.session = sessionDone
		to.need |= needAdded
		emit("commit", to)
	}
}

// collect emits the steps of the collector.
func (m *keeps) collect(s *keepsState, emit func(string, keepsState)) {
	to, c := *s, s.collector
	next := &to.collector
	switch c.step {
	case collectLook:
		if int(c.round) == m.rounds {
			return
		}
		next.base = s.head
		if !s.root.main && !s.root.keep {
			next.condemn = s.root.live
		}
		switch {
		case next.condemn != 0:
			next.step = collectCondemn
			emit("collector: mark", to)
		case s.root.condemned != nil:
			next.step, next.todo = collectDelete, s.root.condemned.names()
			emit("collector: mark, nothing new to condemn", to)
		}

	case collectCondemn:
		if s.head != c.base {
			*next = keepsCollector{round: c.round + 1}
			emit("collector: lost the race", to)
			return
		}
		to = s.append()
		to.root.live &^= c.condemn
		to.root.condemned = s.root.condemned.with(c.condemn, 0, to.head)
		to.collector = keepsCollector{step: collectDelete, todo: to.root.condemned.names(), round: c.round}
		emit("collector: condemn", to)

	case collectDelete:
		if c.todo == 0 {
			next.step = collectDelist
			emit("collector: all deleted", to)
			return
		}
		pack := only(c.todo.first())
		to.present &^= pack
		next.todo &^= pack
		next.deleted |= pack
		emit("collector: delete a pack", to)

	case collectDelist:
		rest, gone := s.root.condemned.without(c.deleted)
		if len(gone) > 0 {
			to = s.append()
			to.root.condemned = rest
			for _, e := range gone {
				to.root.floor = max(to.root.floor, e.at)
			}
		}
		to.collector = keepsCollector{round: c.round + 1}
		emit("collector: delist", to)
	}
}
