package model

// pusher emits the steps of the i-th pusher.
func (m *index) pusher(s *indexState, i int, emit func(string, indexState)) {
	to, p := *s, s.pushers[i]
	switch p.step {
	case pushPlan:
		p.own &^= s.root.condemned.names()
		if p.start < s.root.floor {
			p.own = 0
		}
		if p.own == 0 {
			p.start = s.head
		}
		p.step, p.base, p.relied, p.file, p.merged = pushAppend, s.head, s.live(), 0, 0
		if p.own != 0 || content&^s.packs.in(p.relied) != 0 {
			p.step = pushUpload
		}
		to.pushers[i] = p
		emit("push: plan", to)

	case pushUpload:
		m.pushFiles(s, i, emit)

	case pushAppend:
		if s.head != p.base {
			m.checkClaim(s, i, emit)
			return
		}
		to = s.append()
		to.root.refs |= refPushed
		if p.file != 0 {
			to.root.files = s.root.files&^p.merged | p.file
			to.root.condemnedFiles = s.root.condemnedFiles.with(p.merged&s.root.files, 0, to.head)
		}
		to.pushers[i] = indexPusher{step: pushDone}
		emit("push: append", to)
	}
}

// pushFiles uploads an index file of the own packs, after a pack with content if
// that is missing. If the head is still S, a variant merges the live index files.
func (m *index) pushFiles(s *indexState, i int, emit func(string, indexState)) {
	with, p := *s, s.pushers[i]
	if content&^s.packs.in(p.relied|p.own) != 0 {
		if len(s.packs) == m.packs {
			return
		}
		var n int
		with.packs, n = s.packs.with(content)
		with.present |= only(n)
		p.own |= only(n)
	}
	if len(s.names) == m.files {
		return
	}
	p.step = pushAppend
	to, file := with.upload(p.own)
	p.file, p.merged = file, 0
	to.pushers[i] = p
	emit("push: upload", to)
	if s.head == p.base {
		for _, merged := range twice(s.root.files, only(s.root.files.first())) {
			to, p.file = with.upload(p.own | s.live()&s.names.in(merged))
			p.merged = merged
			to.pushers[i] = p
			emit("push: upload, merging index files", to)
		}
	}
}

// checkClaim is step 3 of a push, at a head other than S.
func (m *index) checkClaim(s *indexState, i int, emit func(string, indexState)) {
	to, p := *s, s.pushers[i]
	passes := p.own&s.root.condemned.names() == 0
	if p.file != 0 {
		passes = passes && p.file&s.root.condemnedFiles.names() == 0 && p.start >= s.root.floor
	}
	anchored := p.relied&^s.live() == 0
	// A merged file must not name packs that the head no longer names.
	if p.merged != 0 && s.names.in(p.file)&^p.own&^s.names.in(s.root.files) != 0 {
		anchored = false
	}
	if m.mutation == offerStale && p.merged != 0 {
		anchored = true
	}
	step := "push: check claim: it holds"
	switch {
	case passes && anchored:
		to.pushers[i].base = s.head
	case int(p.replans) < m.replans:
		step = "push: check claim: plan again"
		to.pushers[i] = indexPusher{start: p.start, own: p.own, replans: p.replans + 1}
	default:
		step = "push: check claim: give up"
		to.pushers[i] = indexPusher{step: pushGaveUp}
	}
	emit(step, to)
}
