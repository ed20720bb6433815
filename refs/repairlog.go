package refs

import (
	"bytes"
	"context"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// LogRepair counts the lines that [Store.RepairLog] changed.
type LogRepair struct {
	Restored int  // exactly, because only one bit of them had changed
	Rebuilt  int  // from the lines around them
	Dropped  int  // lost
	Cut      bool // the end of the log was lost; a line leads to the present value again
}

// Loses reports whether a line is lost, or the text of one.
func (l LogRepair) Loses() bool { return l.Rebuilt > 0 || l.Dropped > 0 || l.Cut }

// maxMendable is the longest damaged part in which RepairLog looks for a changed bit, in
// bytes. The time grows with the square of the length.
const maxMendable = 4 * maxLineSize

// RepairLog repairs a damaged log. It restores lines with one changed bit, and rebuilds a
// line from the commits that the lines around it begin and end with. It removes all other
// damaged lines. At the end it adds a line if the log does not lead to the present value.
// For each line that it rebuilds or adds, it calls fill, which sets all but the commits and
// returns false if there was no such line.
func (s *Store) RepairLog(ctx context.Context, name string, fill func(*LogEntry) bool) (done LogRepair, err error) {
	err = s.rewriteLog(ctx, name, func(data []byte, at refValue, entries []LogEntry, damage error) ([]LogEntry, error) {
		m := &logMender{fill: fill, at: at.id, joined: name == Stash}
		if damage == nil {
			m.entries = entries
			slices.Reverse(m.entries)
		} else {
			m.mendAll(data)
		}
		if m.joined {
			m.closeGaps()
		}
		m.addEnd()
		done = m.done
		slices.Reverse(m.entries)
		return m.entries, nil
	})
	return done, err
}

// logMender collects the entries of a damaged log, oldest first.
type logMender struct {
	fill    func(*LogEntry) bool
	at      object.ID // the present value of the ref
	joined  bool      // each entry begins where the one before ends
	entries []LogEntry
	broken  []byte // the damaged bytes since the last entry
	done    LogRepair
}

// mendAll reads the lines of a log.
func (m *logMender) mendAll(data []byte) {
	end := intactLines(data)
	lines := slices.Collect(bytes.Lines(data[:end]))
	if _, ok := badEnd(data[end:]); ok {
		lines = append(lines, data[end:])
	}
	for _, line := range lines {
		e, err := decodeEntry(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			m.broken = append(m.broken, line...)
			continue
		}
		m.endBroken(&e)
		m.entries = append(m.entries, e)
	}
	m.endBroken(nil)
}

// endBroken mends, rebuilds or drops the damaged bytes before next. Next is nil at the end
// of the log.
func (m *logMender) endBroken(next *LogEntry) {
	part := m.broken
	m.broken = nil
	if len(part) == 0 {
		return
	}
	if list, ok := mendLines(part); ok {
		m.entries = append(m.entries, list...)
		m.done.Restored += len(list)
		return
	}

	lines := max(bytes.Count(part, []byte("\n")), 1)
	e := LogEntry{Old: m.lastCommit(), New: m.at}
	if next != nil {
		e.New, e.Time, e.Who = next.Old, next.Time, next.Who
	} else if len(m.entries) > 0 {
		e.Time, e.Who = m.entries[len(m.entries)-1].Time, m.entries[len(m.entries)-1].Who
	}
	if e.New != e.Old && !e.New.IsZero() && m.fill(&e) {
		m.entries = append(m.entries, e)
		m.done.Rebuilt++
		lines--
	}
	m.done.Dropped += lines
	if m.joined && next != nil {
		next.Old = m.lastCommit()
	}
}

// closeGaps rebuilds a line wherever [findGap] misses one, or joins the lines around it.
func (m *logMender) closeGaps() {
	for {
		slices.Reverse(m.entries)
		gap := findGap(m.entries)
		slices.Reverse(m.entries)
		if gap < 0 {
			return
		}

		at := len(m.entries) - 1 - gap
		next := &m.entries[at]
		e := LogEntry{New: next.Old, Time: next.Time, Who: next.Who}
		if at > 0 {
			e.Old = m.entries[at-1].New
		}
		if m.fill(&e) {
			m.entries = slices.Insert(m.entries, at, e)
			m.done.Rebuilt++
		} else {
			next.Old = e.Old
			m.done.Dropped++
		}
	}
}

// lastCommit returns the commit that the entries lead to.
func (m *logMender) lastCommit() object.ID {
	if len(m.entries) == 0 {
		return object.ID{}
	}
	return m.entries[len(m.entries)-1].New
}

// addEnd adds a line if the entries do not lead to the present value of the ref.
func (m *logMender) addEnd() {
	last := m.lastCommit()
	if m.at.IsZero() || last == m.at || len(m.entries) > 0 && m.entries[len(m.entries)-1].Old == m.at {
		return
	}
	e := LogEntry{Old: last, New: m.at}
	if m.fill(&e) {
		m.entries = append(m.entries, e)
		m.done.Cut = true
	}
}

// mendLines returns the entries of damaged lines if one bit of them has changed. The
// checksums prove it.
func mendLines(part []byte) (list []LogEntry, ok bool) {
	if len(part) > maxMendable {
		return nil, false
	}
	ok = disk.Mend(bytes.Clone(part), func(data []byte) bool {
		list = nil
		rest, complete := bytes.CutSuffix(data, []byte("\n"))
		if !complete {
			return false
		}
		for line := range bytes.SplitSeq(rest, []byte("\n")) {
			e, err := decodeEntry(line)
			if err != nil {
				return false
			}
			list = append(list, e)
		}
		return true
	})
	return list, ok
}
