package model

import (
	"fmt"
	"strings"
)

func (o objects) String() string { return bitNames(uint(o), "A", "B", "X") }

func (r refs) String() string { return bitNames(uint(r), "main", "tag", "hold", "pushed") }

// bitNames joins the names of the set bits.
func bitNames(set uint, names ...string) string {
	var found []string
	for i, name := range names {
		if set>>i&1 != 0 {
			found = append(found, name)
		}
	}
	if found == nil {
		return "none"
	}
	return strings.Join(found, "+")
}

func (s set) String() string {
	if s == 0 {
		return "none"
	}
	var names []string
	for n := range s.all() {
		names = append(names, fmt.Sprint(n))
	}
	return strings.Join(names, ",")
}

func (c condemnation) String() string {
	if len(c) == 0 {
		return "none"
	}
	var names []string
	for _, e := range c {
		name := fmt.Sprintf("%d by root %d", e.name, e.at)
		if e.orphan {
			name += " (orphan)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// facts joins names with their values. It skips empty values.
func facts(pairs ...any) string {
	var text []string
	for i := 0; i < len(pairs); i += 2 {
		if value := pairs[i+1]; value != uint8(0) && value != "" && fmt.Sprint(value) != "none" {
			text = append(text, fmt.Sprintf("%v %v", pairs[i], value))
		}
	}
	return strings.Join(text, "; ")
}

// rootIf returns a root as text if it matters, and "" otherwise.
func rootIf(matters bool, number uint8) string {
	if !matters {
		return ""
	}
	return fmt.Sprint("root ", number)
}

func (m *store) describe(s *storeState) []part {
	parts := []part{
		{"root", facts(fmt.Sprintf("%d: refs", s.head), s.root.refs, "live packs", s.root.live, "condemned", s.root.condemned, "floor", s.root.floor)},
		{"store", facts("has packs", s.present)},
		{"packs", describeContents(s.packs)},
	}
	if m.expire {
		parts = append(parts, part{"main", map[bool]string{false: "has its content", true: "is expired"}[s.root.expired]})
	}
	if m.hold {
		parts = append(parts, part{"hold", [...]string{"next: plan", fmt.Sprint("next: append after root ", s.holdBase), "done", "gone"}[s.hold]})
	}
	for i, p := range s.pushers[:m.pushers] {
		parts = append(parts, part{fmt.Sprint("pusher ", i+1), facts("next:", p.step, "S:", rootIf(p.step != pushPlan && p.step < pushDone, p.base), "S0:", rootIf(p.own != 0, p.start),
			"relies on packs", p.relied, "own packs", p.own, "missing", p.missing, "planned again:", p.replans)})
	}
	for i, c := range s.collectors[:m.collectors] {
		parts = append(parts, part{fmt.Sprint("collector ", i+1), facts("next:", c.step, "S:", rootIf(c.step == collectMark || c.step == collectCondemn, c.base), "S0:", rootIf(c.repacked != 0, c.start),
			"to condemn: packs", c.condemn, "repacked:", c.repacked, "to delete: packs", c.todo, "deleted packs", c.deleted, "round", c.round)})
	}
	if m.latePut || m.lateDelete {
		parts = append(parts, part{"under way", facts("a second PUT of packs", s.latePut, "a second DELETE of packs", s.lateDelete)})
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

func (m *index) describe(s *indexState) []part {
	var names []string
	for f, packs := range s.names {
		names = append(names, fmt.Sprintf("%d names packs %v", f, packs))
	}
	parts := []part{
		{"root", facts(fmt.Sprintf("%d: refs", s.head), s.root.refs, "live index files", s.root.files,
			"condemned packs", s.root.condemned, "condemned index files", s.root.condemnedFiles, "floor", s.root.floor)},
		{"store", facts("has packs", s.present, "index files", s.files)},
		{"packs", describeContents(s.packs)},
		{"index files", strings.Join(names, "; ")},
	}
	for i, p := range s.pushers[:m.pushers] {
		parts = append(parts, part{fmt.Sprint("pusher ", i+1), facts("next:", p.step, "S:", rootIf(p.step != pushPlan && p.step < pushDone, p.base), "S0:", rootIf(p.own != 0, p.start),
			"relies on packs", p.relied, "own packs", p.own, "index file", p.file, "in place of", p.merged, "planned again:", p.replans)})
	}
	for i, c := range s.collectors[:m.collectors] {
		parts = append(parts, part{fmt.Sprint("collector ", i+1), facts("next:", c.step, "S:", rootIf(c.step == collectMark || c.step == collectCondemn || c.step == collectRoot, c.base),
			"to condemn: packs", c.condemn, "to condemn: index files", c.condemnFiles, "index file", c.file, "in place of", c.merged,
			"to delete: packs", c.todo, "to delete: index files", c.todoFiles, "deleted packs", c.deleted, "deleted index files", c.deletedFiles, "round", c.round)})
	}
	return parts
}

func (m *keys) describe(s *keysState) []part {
	packs, keysets := "", ""
	for n, epoch := range s.packs {
		packs += fmt.Sprintf("; %d of epoch %d", n, epoch)
	}
	for n, k := range s.keysets {
		keysets += fmt.Sprintf("; %d has epochs %v, changes of processes %v", n, k.epochs, k.changes)
	}
	parts := []part{
		{"root", facts(fmt.Sprintf("%d: live packs", s.head), s.root.live, "keyset", fmt.Sprint(s.root.keyset), "epoch", fmt.Sprint(s.root.epoch), "since root", s.root.since,
			"condemned packs", s.root.condemned, "condemned keysets", s.root.condemnedKeys, "floor", s.root.floor)},
		{"store", facts("has packs", s.present, "keysets", s.presentKeys)},
		{"packs", packs[2:]},
		{"keysets", keysets[2:]},
	}
	for i, process := range s.processes[:max(m.pushers, m.changers)] {
		p, c := process.pusher, process.changer
		parts = append(parts, part{fmt.Sprint("process ", i+1), facts("epoch", fmt.Sprint(process.epoch), "push next:", p.step, "S0:", rootIf(p.own != 0, p.start), "own packs", p.own, "planned again:", p.replans,
			"change next:", c.step, "made keyset", c.made, "made again:", c.tries)})
	}
	c := &s.collector
	return append(parts, part{"collector", facts("next:", c.step, "S0:", rootIf(c.repacked != 0, c.start), "to condemn: packs", c.condemn, "to condemn: keysets", c.condemnKeys, "repacked:", c.repacked,
		"to delete: packs", c.todo, "to delete: keysets", c.todoKeys, "deleted packs", c.deleted, "deleted keysets", c.deletedKeys, "round", c.round)})
}

func (m *log) describe(s *logState) []part {
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
	parts := []part{{"store", names[2:]}, {"made", made[2:]}, {"counts", truth[2:]}}
	if m.truncation == truncateCut {
		parts = append(parts, part{"mark", fmt.Sprint(s.cut)})
	}

	for i, w := range s.writers[:m.writers] {
		parts = append(parts, part{fmt.Sprint("writer ", i+1), fmt.Sprintf("next: %v; knows root/%d %s; own %s; attempt %d",
			w.step, w.number, rootName(w.remembered), rootName(w.own), w.attempt+1)})
	}

	if !m.sureReplies {
		late := ""
		for id := range int8(len(s.infos)) {
			if s.late>>id&1 != 0 {
				late += " " + rootName(id)
			}
		}
		parts = append(parts, part{"under way", "PUTs of:" + late})
	}
	return parts
}

// rootName returns the letter of a root.
func rootName(id int8) string {
	if id == absent {
		return "none"
	}
	return string(rune('a' + id))
}
