package model

// collector emits the steps of the i-th collector.
func (m *index) collector(s *indexState, i int, emit func(string, indexState)) {
	to, c := *s, s.collectors[i]
	next := &to.collectors[i]
	switch c.step {
	case collectLook:
		if int(c.round) < m.rounds {
			*next = indexCollector{step: collectMark, base: s.head, snapshot: s.root, round: c.round}
			emit("collector: look at the head", to)
		}

	case collectMark:
		m.mark(s, i, emit)
	case collectCondemn:
		m.condemn(s, i, emit)

	case collectDelete:
		switch {
		case c.todo != 0:
			pack := only(c.todo.first())
			to.present &^= pack
			next.todo &^= pack
			next.deleted |= pack
			emit("collector: delete a pack", to)

		case c.todoFiles != 0:
			file := only(c.todoFiles.first())
			to.files &^= file
			next.todoFiles &^= file
			next.deletedFiles |= file
			emit("collector: delete an index file", to)

		default:
			next.step = collectDelist
			emit("collector: all deleted", to)
		}

	case collectDelist:
		m.delist(s, i, emit)
	case collectRoot:
		m.delistRoot(s, i, emit)
	}
}

// mark chooses the packs to condemn: all without an object that the snapshot
// reaches. It emits variants with and without the orphans; and without a
// merge, with a merge of all index files, and with another file in place of the first one. Without a merge, index files
// name condemned packs from then on.
func (m *index) mark(s *indexState, i int, emit func(string, indexState)) {
	c := s.collectors[i]
	root := &c.snapshot
	before, beforeFiles := root.condemned.names(), root.condemnedFiles.names()
	named := s.names.in(root.files)

	live, reach := named&^before, root.closure()
	var dead set
	for n := range live.all() {
		if s.packs[n]&reach == 0 {
			dead |= only(n)
		}
	}

	type old struct{ packs, files set }
	for _, orphans := range twice(old{}, old{s.present &^ named &^ before, s.files &^ root.files &^ beforeFiles}) {
		if m.mutation == deleteIndexByAge && orphans.files != 0 {
			to := *s
			to.files &^= orphans.files
			to.collectors[i] = indexCollector{round: c.round + 1}
			emit("collector: delete index files by their age", to)
			continue
		}
		next := indexCollector{step: collectCondemn, base: c.base, condemn: dead | orphans.packs, condemnFiles: orphans.files, round: c.round}
		switch {
		case next.condemn|next.condemnFiles != 0:
			to := *s
			to.collectors[i] = next
			emit("collector: mark", to)
		case before|beforeFiles != 0:
			to := *s
			to.collectors[i] = indexCollector{step: collectDelete, todo: before, todoFiles: beforeFiles, round: c.round}
			emit("collector: mark, nothing new to condemn", to)
		}

		if len(s.names) == m.files || next.condemn == 0 && root.files.len() < 2 {
			continue
		}
		for _, replaced := range twice(root.files, only(root.files.first())) {
			kept := s.names.in(replaced) & live &^ dead
			if m.mutation == mergeCondemned {
				kept = s.names.in(replaced)
			}
			to, file := s.upload(kept)
			if m.mutation == deleteMergedFirst {
				to.files &^= replaced
			}
			next.file, next.merged = file, replaced
			to.collectors[i] = next
			emit("collector: mark, merge index files", to)
		}
	}
}

// condemn appends a root that condemns the chosen files, if the head is still the
// marked root. Otherwise the collector starts over.
func (m *index) condemn(s *indexState, i int, emit func(string, indexState)) {
	c := s.collectors[i]
	if s.head != c.base && !m.offersAgain(s, &c) {
		to := *s
		to.collectors[i] = indexCollector{round: c.round + 1}
		emit("collector: lost the race", to)
		return
	}
	to := s.append()
	root := &to.root
	files := c.condemnFiles &^ s.root.condemnedFiles.names()
	root.condemnedFiles = root.condemnedFiles.with(files, 0, to.head)
	var atOnce set // index files to delete without condemning them
	if c.file != 0 {
		root.files = s.root.files&^c.merged | c.file
		if m.mutation == deleteMergedAtOnce {
			atOnce = c.merged & s.root.files
		} else {
			root.condemnedFiles = root.condemnedFiles.with(c.merged&s.root.files, 0, to.head)
		}
	}
	root.condemned = root.condemned.with(c.condemn&^s.root.condemned.names(), 0, to.head)
	to.collectors[i] = indexCollector{step: collectDelete, todo: root.condemned.names(), todoFiles: root.condemnedFiles.names() | atOnce, round: c.round}
	emit("collector: condemn", to)
}

// offersAgain reports whether a collector that lost the race offers the same
// merged index file again. Only mutations do that.
func (m *index) offersAgain(s *indexState, c *indexCollector) bool {
	if c.file == 0 || c.condemn|c.condemnFiles != 0 {
		return false
	}
	return m.mutation == offerStale ||
		m.mutation == mergeCondemned && c.base >= s.root.floor && c.file&s.root.condemnedFiles.names() == 0
}

// delist finds the deleted files that the head still condemns. If live index files
// name some of the packs, one variant leaves these condemned. The other uploads an index file in place of those.
func (m *index) delist(s *indexState, i int, emit func(string, indexState)) {
	to, c := *s, s.collectors[i]
	gone := c.deleted & s.root.condemned.names()
	if gone|c.deletedFiles&s.root.condemnedFiles.names() == 0 {
		to.collectors[i] = indexCollector{round: c.round + 1}
		emit("collector: nothing to delist", to)
		return
	}
	next := indexCollector{step: collectRoot, base: s.head, deleted: c.deleted, deletedFiles: c.deletedFiles, round: c.round}
	step := "collector: delist"
	if named := s.names.in(s.root.files); named&gone != 0 && m.mutation != keepDelisted {
		leave := next
		if leave.deleted &^= named; leave.deleted|c.deletedFiles&s.root.condemnedFiles.names() == 0 {
			leave = indexCollector{round: c.round + 1}
		}
		to.collectors[i] = leave
		emit("collector: delist, leave the packs that index files name", to)

		if len(s.names) == m.files {
			return
		}
		for f := range s.root.files.all() {
			if s.names[f]&gone != 0 {
				next.merged |= only(f)
			}
		}
		to, next.file = s.upload(s.names.in(next.merged) &^ s.root.condemned.names())
		step = "collector: delist, write an index file without them"
	}
	to.collectors[i] = next
	emit(step, to)
}

// delistRoot appends a root that forgets the deleted files and raises the floor.
func (m *index) delistRoot(s *indexState, i int, emit func(string, indexState)) {
	c := s.collectors[i]
	if s.head != c.base {
		to := *s
		to.collectors[i] = indexCollector{step: collectDelist, deleted: c.deleted, deletedFiles: c.deletedFiles, round: c.round}
		emit("collector: lost the race", to)
		return
	}
	to := s.append()
	root := &to.root
	var gone, goneFiles condemnation
	root.condemned, gone = root.condemned.without(c.deleted)
	root.condemnedFiles, goneFiles = root.condemnedFiles.without(c.deletedFiles)
	for _, list := range []condemnation{gone, goneFiles} {
		for _, e := range list {
			root.floor = max(root.floor, e.at)
		}
	}
	if c.file != 0 {
		root.files = s.root.files&^c.merged | c.file
		root.condemnedFiles = root.condemnedFiles.with(c.merged, 0, to.head)
	}
	to.collectors[i] = indexCollector{round: c.round + 1}
	emit("collector: delist, append", to)
}
