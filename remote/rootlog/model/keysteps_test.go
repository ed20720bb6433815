package model

import "slices"

// pusher emits the steps of a push of the i-th process.
func (m *keys) pusher(s *keysState, i int, emit func(string, keysState)) {
	to, p := *s, s.processes[i].pusher
	switch p.step {
	case pushPlan:
		p.own &^= s.root.condemned.names()
		if p.start < m.oldest(s) {
			p.own = 0
		}
		p.step, p.base = pushAppend, s.head
		if p.own == 0 {
			p.step, p.start = pushUpload, s.head
		}
		to.processes[i].pusher = p
		to.processes[i].epoch = s.root.epoch
		emit("push: plan", to)

	case pushUpload:
		if len(s.packs) == m.packs {
			return
		}
		to, p.own = s.upload(s.processes[i].epoch)
		p.step = pushAppend
		to.processes[i].pusher = p
		emit("push: upload", to)

	case pushAppend:
		m.publish(s, i, emit)
		if m.crash && int(p.replans) < m.replans {
			to.processes[i].pusher = keysPusher{start: p.start, own: p.own, replans: p.replans + 1}
			emit("push: crash before the append, resume", to)
		}
	}
}

// oldest returns the smallest start of files that a push may name.
func (m *keys) oldest(s *keysState) uint8 {
	if m.mutation == keepOldEpoch {
		return s.root.floor
	}
	return s.root.oldest()
}

// publish appends the root of a push. At a new head, the push checks its claim first.
func (m *keys) publish(s *keysState, i int, emit func(string, keysState)) {
	to, p := *s, s.processes[i].pusher
	if s.head == p.base {
		to = s.append()
		to.name(p.own)
		to.processes[i].pusher = keysPusher{step: pushDone, replans: p.replans}
		emit("push: append", to)
		return
	}

	step := "push: check claim: it holds"
	switch {
	case p.own&s.root.condemned.names() == 0 && p.start >= m.oldest(s):
		to.processes[i].pusher.base = s.head
	case int(p.replans) < m.replans:
		step = "push: check claim: plan again"
		to.processes[i].pusher = keysPusher{start: p.start, own: p.own, replans: p.replans + 1}
	default:
		step = "push: check claim: give up"
		to.processes[i].pusher = keysPusher{step: pushGaveUp}
	}
	emit(step, to)
}

// changer emits the steps of the change of keys of the i-th process.
func (m *keys) changer(s *keysState, i int, emit func(string, keysState)) {
	to, c := *s, s.processes[i].changer
	process := &to.processes[i]
	switch c.step {
	case changeLook:
		process.changer = keysChanger{step: changePut, base: s.head, start: s.head, from: s.root.keyset, tries: c.tries}
		process.epoch = s.root.epoch
		emit("change of keys: look at the head", to)

	case changePut:
		n := len(s.keysets)
		if n == m.keysets {
			return
		}
		made := s.keysets[c.from]
		made.changes |= only(i)
		if m.rotates(i) {
			made.epochs |= only(n)
			if m.mutation == useEpochEarly {
				process.epoch = uint8(n)
			}
		}
		to.keysets = append(slices.Clip(s.keysets), made)
		to.presentKeys |= only(n)
		process.changer.step, process.changer.made = changeAppend, uint8(n)
		emit("change of keys: put a keyset", to)

	case changeAppend:
		m.appendChange(s, i, emit)
	}
}

// rotates reports whether the change of the i-th process begins an epoch.
func (m *keys) rotates(i int) bool { return i == 0 || m.bothRemove }

// appendChange appends the root of a change of keys. At a new head, it checks first that the
// keyset there is the one from which it made its own.
func (m *keys) appendChange(s *keysState, i int, emit func(string, keysState)) {
	to, c := *s, s.processes[i].changer
	if s.head == c.base {
		to = s.append()
		root := &to.root
		root.condemnedKeys = root.condemnedKeys.with(only(int(root.keyset)), 0, to.head)
		root.keyset = c.made
		if m.rotates(i) {
			root.epoch, root.since = c.made, to.head
		}
		to.appended |= only(i)
		to.processes[i].changer = keysChanger{step: changeDone}
		emit("change of keys: append", to)
		return
	}

	fits := s.root.keyset == c.from || m.mutation == changeOfStaleKeyset
	there := !s.root.condemnedKeys.names().has(int(c.made)) && c.start >= s.root.floor
	step := "change of keys: check: it fits"
	switch {
	case fits && (there || m.mutation == nameKeysetUnchecked):
		to.processes[i].changer.base = s.head
	case int(c.tries) < m.replans:
		step = "change of keys: check: make it again"
		to.processes[i].changer = keysChanger{tries: c.tries + 1}
	default:
		step = "change of keys: check: give up"
		to.processes[i].changer = keysChanger{step: changeGaveUp}
	}
	emit(step, to)
}

// collect emits the steps of the collector.
func (m *keys) collect(s *keysState, emit func(string, keysState)) {
	to, c := *s, s.collector
	next := &to.collector
	switch c.step {
	case collectLook:
		if int(c.round) < m.rounds {
			m.mark(s, emit)
		}

	case collectCondemn:
		if s.head != c.base {
			*next = keysCollector{start: c.start, repacked: c.repacked, round: c.round + 1}
			emit("collector: lost the race", to)
			return
		}
		to = s.append()
		to.name(c.repacked)
		to.root.live &^= c.condemn
		to.root.condemned = s.root.condemned.with(c.condemn, 0, to.head)
		to.root.condemnedKeys = s.root.condemnedKeys.with(c.condemnKeys, 0, to.head)
		*next = keysCollector{step: collectDelete, todo: to.root.condemned.names(), todoKeys: to.root.condemnedKeys.names(), round: c.round}
		emit("collector: condemn", to)

	case collectDelete:
		switch {
		case c.todo != 0:
			pack := only(c.todo.first())
			to.present &^= pack
			next.todo &^= pack
			next.deleted |= pack
			emit("collector: delete a pack", to)

		case c.todoKeys != 0:
			file := only(c.todoKeys.first())
			to.presentKeys &^= file
			next.todoKeys &^= file
			next.deletedKeys |= file
			emit("collector: delete a keyset", to)

		default:
			next.step = collectDelist
			emit("collector: all deleted", to)
		}

	case collectDelist:
		m.delist(s, emit)
	}
}

// mark chooses what to condemn at the head: orphans if they are old, and all live packs if it
// repacks them.
func (m *keys) mark(s *keysState, emit func(string, keysState)) {
	root, c := &s.root, s.collector
	oldest := root.oldest()
	if m.mutation == repackOldEpoch {
		oldest = root.floor
	}
	if c.repacked&root.condemned.names() != 0 || c.start < oldest {
		c.repacked = 0
	}
	if c.repacked == 0 {
		c.start = s.head
	}

	type old struct{ packs, keys set }
	orphans := old{s.present &^ root.live &^ root.condemned.names() &^ c.repacked, s.presentKeys &^ only(int(root.keyset)) &^ root.condemnedKeys.names()}
	for _, orphans := range twice(old{}, orphans) {
		if m.mutation == deleteKeysetByAge && orphans.keys != 0 {
			to := *s
			to.presentKeys &^= orphans.keys
			to.collector = keysCollector{round: c.round + 1}
			emit("collector: delete keysets by their age", to)
			continue
		}

		to, next := *s, keysCollector{step: collectCondemn, base: s.head, start: c.start, condemn: orphans.packs, condemnKeys: orphans.keys, round: c.round}
		switch {
		case next.condemn|next.condemnKeys != 0:
			to.collector = next
			emit("collector: mark", to)
		case root.condemned.names()|root.condemnedKeys.names() != 0:
			to.collector = keysCollector{step: collectDelete, todo: root.condemned.names(), todoKeys: root.condemnedKeys.names(), round: c.round}
			emit("collector: mark, nothing new to condemn", to)
		}

		if next.repacked = c.repacked; next.repacked == 0 {
			if len(s.packs) == m.packs {
				continue
			}
			to, next.repacked = s.upload(root.epoch)
		}
		next.condemn |= root.live
		to.collector = next
		emit("collector: mark, repack", to)
	}
}

// delist appends a root that forgets the deleted files and raises the floor.
func (m *keys) delist(s *keysState, emit func(string, keysState)) {
	to, c, step := *s, s.collector, "collector: nothing to delist"
	rest, gone := s.root.condemned.without(c.deleted)
	restKeys, goneKeys := s.root.condemnedKeys.without(c.deletedKeys)
	if len(gone)+len(goneKeys) > 0 {
		to, step = s.append(), "collector: delist"
		to.root.condemned, to.root.condemnedKeys = rest, restKeys
		for _, list := range []condemnation{gone, goneKeys} {
			for _, e := range list {
				to.root.floor = max(to.root.floor, e.at)
			}
		}
	}
	to.collector = keysCollector{round: c.round + 1}
	emit(step, to)
}
