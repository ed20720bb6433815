package refs

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Who moves a ref.
type Who struct{ Name, Email string }

// LogEntry is one move of a ref.
type LogEntry struct {
	Old, New object.ID // zero: the ref did not exist
	Who      Who
	Time     time.Time // in the zone of whoever moved it
	Reason   string    // one line, as in "commit: fix the roof"
}

// Limits of logs, in bytes. Longer names and reasons are cut off.
const (
	maxWhoSize    = 256 // for a name, and for an address
	maxReasonSize = 1024
	maxLineSize   = 2048
	maxLogSize    = 1 << 30 // for a log
)

// Log returns the moves of a ref, or of "HEAD", newest first. It returns none
// for a ref without a log. If lines are damaged, it returns all readable ones
// together with a [*CorruptError]. An incomplete last line does not count: its
// writer stopped before the ref moved.
func (s *Store) Log(name string) ([]LogEntry, error) {
	if name != "HEAD" {
		if err := CheckName(name); err != nil {
			return nil, err
		}
	}
	return s.readLog("logs/" + name)
}

func (d folder) readLog(file string) ([]LogEntry, error) {
	data, found, err := d.read(file, maxLogSize)
	if err != nil || !found {
		return nil, err
	}
	return d.decodeLog(file, data)
}

func (d folder) decodeLog(file string, data []byte) ([]LogEntry, error) {
	entries, err := decodeLog(data)
	if err != nil {
		err = &CorruptError{File: file, Err: err}
	}
	return entries, err
}

// decodeLog returns the entries in a log's bytes, newest first, and an error
// for the first damaged line.
func decodeLog(data []byte) (entries []LogEntry, err error) {
	end := intactLines(data)
	data, tail := data[:end], data[end:]
	number := 1
	for ; len(data) > 0; number++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		entry, lineErr := decodeEntry(line)
		if lineErr == nil {
			entries = append(entries, entry)
		} else if err == nil {
			err = fmt.Errorf("line %d: %w", number, lineErr)
		}
		data = rest
	}

	if entry, ok := badEnd(tail); ok {
		entries = append(entries, entry)
		if err == nil {
			err = fmt.Errorf("line %d: its end is damaged", number)
		}
	}

	slices.Reverse(entries)
	return entries, err
}

// badEnd reports whether the bytes after the last complete line of a log are
// an entry with a damaged line end. An interrupted append never leaves that.
func badEnd(tail []byte) (LogEntry, bool) {
	if len(tail) == 0 || tail[0] == 0 {
		return LogEntry{}, false
	}
	entry, err := decodeEntry(tail[:len(tail)-1])
	return entry, err == nil
}

// intactLines returns the length of the complete lines of a log, in bytes. An
// interrupted append leaves a line without its end. After a power failure, it
// may also leave a line that begins with zero bytes, because its first part
// never reached the disk.
func intactLines(data []byte) int {
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 {
		return 0
	}
	last := bytes.LastIndexByte(data[:end-1], '\n') + 1
	if data[last] == 0 {
		return last
	}
	return end
}

// encodeEntry returns an entry's line: the checksum of the rest, then ID, ID,
// time, name and address, a tab, and the reason.
func encodeEntry(e LogEntry) []byte {
	who := "<" + e.Who.Email + ">"
	if e.Who.Name != "" {
		who = e.Who.Name + " " + who
	}
	text := fmt.Sprintf("%s %s %s %s\t%s", e.Old, e.New, e.Time.Format(time.RFC3339Nano), who, e.Reason)
	return fmt.Appendf(nil, "%s %s\n", disk.Sum([]byte(text)), text)
}

func decodeEntry(line []byte) (LogEntry, error) {
	want, text, _ := strings.Cut(string(line), " ")
	if want != disk.Sum([]byte(text)) {
		return LogEntry{}, errors.New("checksum does not fit")
	}

	head, reason, _ := strings.Cut(text, "\t")
	fields := strings.SplitN(head, " ", 4)
	if len(fields) < 4 {
		return LogEntry{}, errors.New("fields are missing")
	}

	e := LogEntry{Reason: reason}
	var err error
	if e.Old, err = object.ParseID(fields[0]); err != nil {
		return LogEntry{}, err
	}
	if e.New, err = object.ParseID(fields[1]); err != nil {
		return LogEntry{}, err
	}
	if e.Time, err = time.Parse(time.RFC3339Nano, fields[2]); err != nil {
		return LogEntry{}, errors.New("the time does not fit")
	}

	_, offset := e.Time.Zone()
	e.Time = e.Time.In(time.FixedZone("", offset)) // never the local zone
	name, email, _ := strings.Cut(fields[3], "<")
	e.Who = Who{Name: strings.TrimSuffix(name, " "), Email: strings.TrimSuffix(email, ">")}
	if string(encodeEntry(e)) != string(line)+"\n" {
		return LogEntry{}, errors.New("not written as it should be")
	}

	return e, nil
}

// newEntry returns an entry with texts that fit into a log's line.
func (s *Store) newEntry(old, new object.ID, who Who, reason string) (LogEntry, error) {
	now := s.now().Round(0)
	if _, offset := now.Zone(); offset%60 != 0 { // a zone from before 1970, which the format cannot store
		now = now.UTC()
	}
	if y := now.Year(); y < 0 || y > 9999 {
		return LogEntry{}, fmt.Errorf("the clock says that this is the year %d", y)
	}
	who = Who{Name: oneLine(who.Name, maxWhoSize, "<>"), Email: oneLine(who.Email, maxWhoSize, "<>")}
	return LogEntry{Old: old, New: new, Who: who, Time: now, Reason: oneLine(reason, maxReasonSize, "")}, nil
}

// oneLine returns a text in valid UTF-8 without the runes of drop, with every
// run of spaces and control characters as one space, and at most size bytes
// long.
func oneLine(text string, size int, drop string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	text = strings.Map(func(r rune) rune {
		if strings.ContainsRune(drop, r) {
			return -1
		}
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > size {
		for !utf8.RuneStart(text[size]) {
			size--
		}
		text = text[:size]
	}

	return strings.TrimSpace(text)
}

// Span is an age: a length of time by the calendar.
type Span struct {
	Years, Months, Days int
	Seconds             int64
}

// maxSpan is the largest number of most units in the text of a span. Smaller
// units may have more: days ten times as many, seconds a thousand times.
const maxSpan = 1_000_000

func maxOf(unit string) int {
	switch unit {
	case "s":
		return 1000 * maxSpan
	case "min":
		return 100 * maxSpan
	case "d":
		return 10 * maxSpan
	}
	return maxSpan
}

// spanPart is a number and a unit at the beginning of a text.
var spanPart = regexp.MustCompile(`^([0-9]+|[a-z]+)[ ._-]*([a-z]+)[ ._-]*`)

// ParseSpan reads an age as people write it: "90 days", "90d", "2.weeks.ago",
// "a week", "1y6m". A number alone is days. A text has each unit once. Case
// does not matter. docs/ages.md lists the forms.
//
// This is the only parser of ages: options, keys of the configuration and
// [ParseTime] use it.
func ParseSpan(text string) (span Span, ok bool) {
	rest := strings.ToLower(strings.TrimSpace(text))
	if len(rest) > 64 {
		return Span{}, false
	}
	if n, err := strconv.ParseUint(rest, 10, 31); err == nil {
		return Span{Days: int(n)}, n <= maxSpan
	}
	if before, ago := strings.CutSuffix(rest, "ago"); ago && strings.TrimRight(before, " ._-") != before {
		rest = strings.TrimRight(before, " ._-")
	}
	if rest == "" || strings.ContainsAny(rest[len(rest)-1:], " ._-") {
		return Span{}, false
	}

	used := map[string]bool{}
	for rest != "" {
		part := spanPart.FindStringSubmatch(rest)
		if part == nil {
			return Span{}, false
		}
		rest = rest[len(part[0]):]
		unit := spanUnit(part[2])
		n, known := numbers[part[1]]
		if !known {
			parsed, err := strconv.ParseUint(part[1], 10, 31)
			if err != nil || int(parsed) > maxOf(unit) {
				return Span{}, false
			}
			n = int(parsed)
		}
		if unit == "" || used[unit] {
			return Span{}, false
		}
		used[unit] = true
		span.add(n, unit)
	}

	return span, true
}

// spanUnit returns the letter of a unit, in its short or long form; "" for a
// word that is not a unit. "m" is a month everywhere.
func spanUnit(word string) string {
	switch strings.TrimSuffix(word, "s") {
	case "y", "year":
		return "y"
	case "m", "mo", "month":
		return "m"
	case "w", "week":
		return "w"
	case "d", "day":
		return "d"
	case "h", "hour":
		return "h"
	case "min", "minute":
		return "min"
	case "", "sec", "second": // "s" alone
		return "s"
	}

	return ""
}

func (s *Span) add(n int, unit string) {
	switch unit {
	case "y":
		s.Years += n
	case "m":
		s.Months += n
	case "w":
		s.Days += 7 * n
	case "d":
		s.Days += n
	case "h":
		s.Seconds += int64(n) * 3600
	case "min":
		s.Seconds += int64(n) * 60
	case "s":
		s.Seconds += int64(n)
	}
}

// Before returns the time s before t. A month before is the same day
// of the month, or the last day of a shorter month.
func (s Span) Before(t time.Time) time.Time {
	const step = 1e9 // seconds, which a time.Duration can hold
	t = monthsBefore(t, 12*s.Years+s.Months).AddDate(0, 0, -s.Days)
	rest := s.Seconds
	for ; rest > step; rest -= step {
		t = t.Add(-step * time.Second)
	}
	return t.Add(-time.Duration(rest) * time.Second)
}
