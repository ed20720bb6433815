// Package ignore decides which paths of a worktree are left alone, by the
// rules of .gitignore, which .kistignore follows to the letter. The rules for
// users are in docs/format/ignore.md.
//
// A match takes time that is at worst the product of the lengths of pattern
// and path, whatever they hold.
package ignore

import (
	"bytes"
	"fmt"
	"strings"
)

// Limits of an ignore file.
const (
	MaxFileSize = 1 << 20 // bytes of a file
	MaxLineSize = 2 << 10 // bytes of a line that is no comment
)

// LimitError says that an ignore file is larger than is allowed.
type LimitError struct {
	Dir   string // the folder of the file
	Line  int    // the line that is too long; 0: it is the file
	Size  int    // bytes
	Limit int    // bytes
}

func (e *LimitError) Error() string {
	what := "ignore file"
	if e.Line > 0 {
		what = fmt.Sprintf("line %d of ignore file", e.Line)
	}
	return fmt.Sprintf("%s in %q has %d bytes, %d are allowed", what, "/"+e.Dir, e.Size, e.Limit)
}

// Patterns are the rules of one ignore file. They do not change and are safe
// for concurrent use.
type Patterns struct {
	dir   string // "" or the folder of the file
	rules []rule

	// The rules by kind. A number is a rule's place in rules plus one, so that
	// 0 means none and the largest number wins.
	names map[string]last // without wildcards, by name
	paths map[string]last // without wildcards, by path below dir
	tails map[byte][]int  // with wildcards, by the last byte of what matches; ascending
	globs []int           // the others, ascending
}

// last is the last of the rules with the same text.
type last struct {
	any int // that match anything
	dir int // that match folders only
}

// Parse reads the content of an ignore file in the folder dir: a slash-separated
// path, "" for the root of the worktree. Patterns that cannot match anything,
// such as one that ends within a character class, are dropped, as git does.
// The error is a [*LimitError].
func Parse(data []byte, dir string) (*Patterns, error) {
	p := &Patterns{dir: dir}
	if len(data) > MaxFileSize {
		return nil, &LimitError{Dir: dir, Size: len(data), Limit: MaxFileSize}
	}
	rest := string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	for line := 1; rest != ""; line++ {
		var text string
		text, rest, _ = strings.Cut(rest, "\n")
		if strings.HasPrefix(text, "#") {
			continue
		}
		if len(text) > MaxLineSize {
			return nil, &LimitError{Dir: dir, Line: line, Size: len(text), Limit: MaxLineSize}
		}
		text = strings.TrimSuffix(text, "\r")
		text, _, _ = strings.Cut(text, "\x00")
		if r, ok := newRule(trimSpaces(text)); ok {
			r.line = line
			p.add(r)
		}
	}
	return p, nil
}

// trimSpaces removes spaces at the end, but not those after a backslash.
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			if i++; i == len(s) {
				return s
			}
			end = i + 1
		} else if s[i] != ' ' {
			end = i + 1
		}
	}
	return s[:end]
}

func (p *Patterns) add(r rule) {
	p.rules = append(p.rules, r)
	n := len(p.rules)
	switch r.kind {
	case exactName:
		note(&p.names, r.literal, n, r.dirOnly)
	case exactPath:
		note(&p.paths, r.literal, n, r.dirOnly)
	default:
		if r.tail == "" {
			p.globs = append(p.globs, n)
			return
		}
		if p.tails == nil {
			p.tails = make(map[byte][]int)
		}
		end := r.tail[len(r.tail)-1]
		p.tails[end] = append(p.tails[end], n)
	}
}

func note(m *map[string]last, text string, n int, dirOnly bool) {
	if *m == nil {
		*m = make(map[string]last)
	}
	l := (*m)[text]
	if dirOnly {
		l.dir = n
	} else {
		l.any = n
	}
	(*m)[text] = l
}

// match returns the last rule that matches a path below p.dir; nil for none.
func (p *Patterns) match(path, name string, isDir bool) *rule {
	n := 0
	if p.names != nil {
		n = p.names[name].latest(isDir)
	}
	if p.paths != nil {
		n = max(n, p.paths[path].latest(isDir))
	}
	if p.tails != nil {
		n = p.latest(n, p.tails[name[len(name)-1]], path, name, isDir)
	}
	n = p.latest(n, p.globs, path, name, isDir)
	if n == 0 {
		return nil
	}
	return &p.rules[n-1]
}

// latest returns the last of numbers whose rule matches, if it is above n.
func (p *Patterns) latest(n int, numbers []int, path, name string, isDir bool) int {
	for i := len(numbers) - 1; i >= 0 && numbers[i] > n; i-- {
		if p.rules[numbers[i]-1].match(path, name, isDir) {
			return numbers[i]
		}
	}
	return n
}

func (l last) latest(isDir bool) int {
	if isDir {
		return max(l.any, l.dir)
	}
	return l.any
}
