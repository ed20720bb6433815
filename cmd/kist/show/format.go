package show

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/look/log"
)

// Format is a form in which a log prints commits: a named form of git, or a text
// with git's placeholders. The zero Format is medium.
type Format struct {
	name  string // of a named form
	items []item // of a text
	short bool   // dates are short by default
	ended bool   // see Ended
	uses  uses
}

// uses are the data that a text with placeholders needs, beside the commit.
type uses struct{ names, marks, signatures bool }

// ErrFormat is the error for a text that is no [Format].
var ErrFormat = errors.New("not a format of commits")

// The named formats. "reference" is a text with placeholders.
const (
	Oneline   = "oneline"
	reference = "%C(auto)%h (%s, %ad)"
)

var namedFormats = []string{Oneline, "short", "medium", "full", "fuller", "raw"}

// ParseFormat reads the value of --format: oneline, short, medium, full, fuller,
// raw, reference, format:TEXT, tformat:TEXT, or a TEXT with a "%". An empty text
// is a TEXT. The error matches [ErrFormat].
func ParseFormat(text string) (f Format, err error) {
	switch {
	case slices.Contains(namedFormats, text):
		return Format{name: text, ended: text == Oneline}, nil
	case text == "reference":
		f.items, f.uses, err = compile(reference)
		f.short, f.ended = true, true
		return f, err
	}
	if separated, ok := strings.CutPrefix(text, "format:"); ok {
		f.items, f.uses, err = compile(separated)
		return f, err
	}
	if ended, ok := strings.CutPrefix(text, "tformat:"); ok {
		text = ended
	} else if text != "" && !strings.Contains(text, "%") {
		return f, ErrFormat
	}
	f.items, f.uses, err = compile(text)
	f.ended = true
	return f, err
}

// Name returns the name of a named format: "" for a text.
func (f Format) Name() string {
	if f.items == nil && f.name == "" {
		return "medium"
	}
	return f.name
}

// IsNamed reports whether f is a named format with several lines.
func (f Format) IsNamed() bool { return f.items == nil && f.name != Oneline }

// Ended reports whether a newline ends each commit. Otherwise a newline stands between
// two commits.
func (f Format) Ended() bool { return f.ended }

// Empty reports whether f prints nothing.
func (f Format) Empty() bool { return f.items != nil && len(f.items) == 0 }

// UsesNames reports whether f prints names of commits.
func (f Format) UsesNames() bool { return f.uses.names }

// UsesMarks reports whether f prints Logged.Mark.
func (f Format) UsesMarks() bool { return f.uses.marks }

// UsesSignatures reports whether f prints the results of checks of signatures.
func (f Format) UsesSignatures() bool { return f.uses.signatures }

// Printer prints commits in a [Format].
type Printer struct {
	Format  Format
	Date    refs.DateForm
	HasDate bool      // the user chose Date
	Now     time.Time // in the reader's zone
	Color   bool
	Abbrev  bool                           // short IDs in named formats
	Marks   bool                           // show Logged.Mark in named formats
	Names   map[object.ID][]log.Decoration // for %d and %D
	Named   bool                           // show Names in named formats
	Safe    func(string) string            // makes text of others safe for a terminal
	Notes   func(c log.Logged) Notes       // more about a commit in named formats; nil: none

	Signed    bool                           // the results of checks are shown
	Signature func(object.Key) sshsig.Result // checks the signature of a commit or tag; nil: there are none

	buf []byte
}

// Notes are kist's own remarks on a commit.
type Notes struct {
	Marks string   // behind the names of the commit
	Above []string // lines above the author
	Below []string // lines below the date
}

// Text returns a commit in the format, without the newline that ends or separates commits.
// The next call changes the result.
func (p *Printer) Text(c log.Logged) []byte {
	t := &printed{Printer: p, Logged: c}
	b := p.buf[:0]
	if p.Format.items != nil {
		b = appendItems(b, p.Format.items, t)
	} else {
		b = t.appendNamed(b)
	}
	p.buf = b
	return b
}

// printed is a commit that is being printed.
type printed struct {
	*Printer
	log.Logged
	title, body string // see message
	split       bool   // title and body are set
	signed      *sshsig.Result
}

// splitMessage returns the first paragraph of the message as one line, and the rest.
func (t *printed) splitMessage() (title, body string) {
	if !t.split {
		t.title, t.body = log.SplitMessage(t.Safe(t.Commit.Message))
		t.split = true
	}
	return t.title, t.body
}

// formatDate returns the time of a stamp.
func (t *printed) formatDate(s object.Stamp) string {
	form := t.Date
	if t.Format.short && !t.HasDate {
		form, _ = refs.ParseDateForm("short")
	}
	return form.Format(s.When(), t.Now)
}

// formatPerson returns a name and an address.
func (t *printed) formatPerson(s object.Stamp) string { return t.Safe(s.Name + " <" + s.Email + ">") }

// Escape sequences of colours.
const (
	reset      = "\x1b[m"
	commitText = "\x1b[33m"
)

// appendPainted appends text, in a colour if colours are wanted.
func (t *printed) appendPainted(b []byte, color, text string) []byte {
	if !t.Color || text == "" {
		return append(b, text...)
	}
	return append(append(append(b, color...), text...), reset...)
}

// appendNamed appends the commit in a named format.
func (t *printed) appendNamed(b []byte) []byte {
	var notes Notes
	if t.Notes != nil {
		notes = t.Notes(t.Logged)
	}
	name := t.Format.Name()
	head := "commit "
	if name == Oneline {
		head = ""
	}
	if t.Marks && t.Mark != 0 {
		head += string(t.Mark) + " "
	}
	id := t.ID.String()
	if t.Abbrev {
		id = t.ID.Short()
	}
	b = t.appendPainted(b, commitText, head+id)
	if t.Named {
		b = t.appendNames(b, t.Color, true)
	}
	b = append(b, notes.Marks...)
	if name == Oneline {
		b = append(b, ' ')
		if t.Reflog != nil {
			return append(b, t.moveName(true)+": "+t.Safe(t.Reflog.Reason)...)
		}
		title, _ := t.splitMessage()
		return append(b, title...)
	}

	line := func(text string) { b = append(append(b, '\n'), text...) }
	if t.Reflog != nil {
		line("Reflog: " + t.moveName(true) + " (" + t.Safe(t.Reflog.Who.Name+" <"+t.Reflog.Who.Email+">") + ")")
		line("Reflog message: " + t.Safe(t.Reflog.Reason))
	}
	if name == "raw" {
		line("tree " + t.Tree.String())
		for _, parent := range t.Parents {
			line("parent " + parent.String())
		}
	} else if len(t.Parents) > 1 {
		line("Merge:")
		for _, parent := range t.Parents {
			b = append(append(b, ' '), parent.Short()...)
		}
	}
	for _, note := range notes.Above {
		line(note)
	}
	t.writePeople(name, line)
	for _, note := range notes.Below {
		line(note)
	}
	return t.appendMessage(b, name)
}

// writePeople passes the lines with author, committer and dates to line.
func (t *printed) writePeople(format string, line func(string)) {
	author, committer := t.formatPerson(t.Author), t.formatPerson(t.Committer)
	switch format {
	case "medium":
		line("Author: " + author)
		line("Date:   " + t.formatDate(t.Author))
	case "short":
		line("Author: " + author)
	case "full":
		line("Author: " + author)
		line("Commit: " + committer)
	case "fuller":
		line("Author:     " + author)
		line("AuthorDate: " + t.formatDate(t.Author))
		line("Commit:     " + committer)
		line("CommitDate: " + t.formatDate(t.Committer))
	case "raw":
		raw, _ := refs.ParseDateForm("raw")
		line("author " + author + " " + raw.Format(t.Author.When(), t.Now))
		line("committer " + committer + " " + raw.Format(t.Committer.When(), t.Now))
	}
}

// appendMessage appends an empty line and the message, indented, or nothing if there
// is no message. Format short has only its first paragraph.
func (t *printed) appendMessage(b []byte, format string) []byte {
	b = append(b, '\n')
	expand := format != "raw" && format != "short"
	for line := range strings.SplitSeq(log.SkipBlank(t.Safe(t.Commit.Message)), "\n") {
		line = strings.TrimRight(line, log.WhiteSpace)
		if line == "" && format == "short" {
			break
		}
		if expand && strings.Contains(line, "\t") {
			line = expandTabs(line)
		}
		b = append(append(b, "\n    "...), line...)
	}
	for n := len(b); n > 0 && strings.IndexByte(log.WhiteSpace, b[n-1]) >= 0; n = len(b) {
		b = b[:n-1]
	}
	return append(b, '\n')
}

// expandTabs replaces tabs by spaces up to the next of every eight columns.
func expandTabs(line string) string {
	var out strings.Builder
	column := 0
	for before, rest, found := strings.Cut(line, "\t"); ; before, rest, found = strings.Cut(rest, "\t") {
		out.WriteString(before)
		if !found {
			return out.String()
		}
		column += Width(before)
		pad := 8 - column%8
		out.WriteString("        "[:pad])
		column += pad
	}
}

// moveName returns the name of the move of a ref, as in HEAD@{1}.
func (t *printed) moveName(short bool) string {
	name := t.Reflog.Ref
	if short {
		name = shortName(name)
	}
	at := strconv.Itoa(t.Reflog.Number)
	if t.HasDate {
		at = t.Date.Format(t.Reflog.Time, t.Now)
	}
	return t.Safe(name + "@{" + at + "}")
}

// shortName returns the name of a ref without the folder that its kind has.
func shortName(name string) string {
	for _, folder := range []string{refs.Heads, refs.Tags, refs.Remotes} {
		if short, ok := strings.CutPrefix(name, folder); ok {
			return short
		}
	}
	return name
}

// appendNames appends the names of the commit, separated by commas. If enclosed is set, they are
// in parentheses after a space.
func (t *printed) appendNames(b []byte, color, enclosed bool) []byte {
	list := t.Names[t.ID]
	if len(list) == 0 {
		return b
	}
	paint := func(color, text string) { b = append(b, text...) }
	if color {
		paint = func(color, text string) { b = append(append(append(b, color...), text...), reset...) }
	}
	separator, end := "", ""
	if enclosed {
		separator, end = " (", ")"
	}
	for _, name := range list {
		if separator != "" || color {
			paint(commitText, separator)
		}
		separator = ", "
		if name.Head {
			paint(log.ColorHead, "HEAD -> ")
		}
		paint(name.Color, t.Safe(name.Text))
	}
	if end != "" || color {
		paint(commitText, end)
	}
	return b
}
