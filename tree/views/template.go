package views

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// ErrTemplate is matched by the error for an invalid template.
var ErrTemplate = errors.New("invalid template")

// template makes the path of a link from the facts of a file.
type template struct {
	text  string
	parts []part
}

// part is a literal text or a fact.
type part struct {
	text   string // a literal, if fact is empty
	fact   string // "date", or "attr.KEY"
	format string // of a time
}

// facts are the values that a template can contain, except attr.KEY. True marks the facts of
// the commit that changed the file last.
var facts = map[string]bool{
	"path": false, "dir": false, "name": false, "stem": false, "ext": false, "id": false, "mtime": false, tree.ContentType: false,
	"date": true, "author": true, "email": true, "commit": true, "tag": true,
}

const (
	attrFact  = "attr."
	noValue   = "none" // stands for an empty value
	maxValue  = 128    // bytes of a value
	dayFormat = "%Y-%m-%d"
)

// parseTemplate returns the template in text. The error matches [ErrTemplate].
func parseTemplate(text string) (*template, error) {
	t := &template{text: text}
	fail := func(format string, args ...any) (*template, error) {
		return nil, fmt.Errorf("%w %q: %s", ErrTemplate, text, fmt.Sprintf(format, args...))
	}
	named := false
	for rest := text; rest != ""; {
		literal, after, opened := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return fail("a } without a {")
		}
		t.parts = append(t.parts, part{text: literal})
		if !opened {
			break
		}
		inside, after, closed := strings.Cut(after, "}")
		if !closed {
			return fail("a { without a }")
		}
		p := part{}
		p.fact, p.format, _ = strings.Cut(inside, ":")
		_, known := facts[p.fact]
		key, isAttr := strings.CutPrefix(p.fact, attrFact)
		switch {
		case !known && (!isAttr || key == ""):
			return fail("there is no fact {%s}", p.fact)
		case p.format != "" && !p.isTime():
			return fail("{%s} has no format", p.fact)
		}
		if _, err := formatTime(p.format, time.Time{}); err != nil {
			return fail("{%s}: %v", inside, err)
		}
		t.parts = append(t.parts, p)
		named = true
		rest = after
	}
	if !named {
		return fail("without a fact such as {path}, all files get the same name")
	}
	example := func(p part) string {
		if p.isTime() {
			return oneTime(p.format, time.Time{})
		}
		return "x"
	}
	if _, err := t.expandFacts(example); err != nil {
		return fail("%v", err)
	}
	return t, nil
}

func (p part) isTime() bool { return p.fact == "date" || p.fact == "mtime" }

// fromHistory reports whether the template needs the commits that changed files last.
func (t *template) fromHistory() bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return facts[p.fact] })
}

// usesFact reports whether the template contains a fact.
func (t *template) usesFact(fact string) bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return p.fact == fact })
}

// needsInherited reports whether the template contains an attribute that folders pass on.
func (t *template) needsInherited() bool {
	return slices.ContainsFunc(t.parts, func(p part) bool {
		key, isAttr := strings.CutPrefix(p.fact, attrFact)
		return isAttr && tree.Inherits(key)
	})
}

// expandFacts returns the path that the template makes of values. The path stays inside the folder:
// an error is a [*tree.PathError].
func (t *template) expandFacts(value func(part) string) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.fact == "" {
			b.WriteString(p.text)
			continue
		}
		b.WriteString(value(p))
	}
	link, err := tree.CleanPath(b.String())
	switch top, _, _ := strings.Cut(link, "/"); {
	case err != nil:
		return "", err
	case link == "":
		return "", &tree.PathError{Path: b.String(), Err: errors.New("names no file")}
	case top == markName, path.Base(link) == newName:
		return "", &tree.PathError{Path: link, Err: errors.New("is a name that kist needs itself")}
	}
	return link, nil
}

// fileFacts are the facts of a file from which a template makes its link.
type fileFacts struct {
	path   string
	entry  object.Entry
	sum    object.ID    // SHA-256 of the content
	commit *commitFacts // nil if no fact needs it
	attrs  map[string]tree.Attr
	media  string // the media type, if a fact needs it
}

// commitFacts are the facts of the commit that changed a file last.
type commitFacts struct {
	id            object.ID
	author, email string
	date          time.Time
	tag           string
}

// linkPath returns the path of the link to a file.
func (t *template) linkPath(s fileFacts) (string, error) {
	return t.expandFacts(func(p part) string {
		dir, name := tree.Split(s.path)
		ext := path.Ext(name)
		if ext == name { // such as .profile
			ext = ""
		}
		switch p.fact {
		case "path":
			return s.path
		case "dir":
			if dir == "" {
				return "." // CleanPath removes it
			}
			return dir
		case "name":
			return name
		case "stem":
			return strings.TrimSuffix(name, ext)
		case "ext":
			return oneName(strings.ToLower(strings.TrimPrefix(ext, ".")))
		case tree.ContentType:
			kind, _, _ := strings.Cut(s.media, ";") // without parameters
			first, second, _ := strings.Cut(kind, "/")
			return oneName(first) + "/" + oneName(second)
		case "id":
			return s.sum.String()
		case "mtime":
			at, _ := s.entry.Modified()
			return oneTime(p.format, at)
		case "date":
			return oneTime(p.format, s.commit.date)
		case "author":
			return oneName(s.commit.author)
		case "email":
			return oneName(s.commit.email)
		case "commit":
			return s.commit.id.String()[:12]
		case "tag":
			return oneName(s.commit.tag)
		}
		return oneName(s.attrs[strings.TrimPrefix(p.fact, attrFact)].Value)
	})
}

// oneName returns a value as one name of a path. Slashes and control characters become
// underscores, and so the value of a hostile commit cannot lead elsewhere.
func oneName(value string) string {
	value = strings.Map(func(r rune) rune {
		if r == '/' || r == utf8.RuneError || r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, value)
	for len(value) > maxValue {
		_, size := utf8.DecodeLastRuneInString(value)
		value = value[:len(value)-size]
	}
	switch {
	case value == "":
		return noValue
	case object.CheckName(value) != nil, object.IsGitName(value): // such as .., .kist and .git
		return "_" + value
	}
	return value
}

// oneTime returns a time in a format. Slashes in the format make folders.
func oneTime(format string, at time.Time) string {
	text, _ := formatTime(format, at)
	return text
}

// layouts maps each letter of a format, as in strftime, to its layout.
var layouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'j': "002",
	'b': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday", 'F': "2006-01-02",
}

// formatTime returns a time in a format of strftime. An empty format means [dayFormat].
func formatTime(format string, at time.Time) (string, error) {
	if format == "" {
		format = dayFormat
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		i++
		if i == len(format) {
			return "", errors.New("a % at the end")
		}
		layout, known := layouts[format[i]]
		year, week := at.ISOWeek()
		switch {
		case known:
			b.WriteString(at.Format(layout))
		case format[i] == 'G':
			fmt.Fprintf(&b, "%04d", year)
		case format[i] == 'V':
			fmt.Fprintf(&b, "%02d", week)
		case format[i] == '%':
			b.WriteByte('%')
		default:
			return "", fmt.Errorf("%%%c is no part of a time", format[i])
		}
	}
	return b.String(), nil
}
