package web

import (
	"html/template"
	"net/url"
	"strconv"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/log"
)

// perPage is the number of commits on a page of the history.
const perPage = 50

// maxSkip is the most commits before a page of the history.
const maxSkip = 1_000_000

// The most of a commit that a page shows. A hostile commit can have much more.
const (
	maxMerge  = 24        // parents
	maxNames  = 12        // names in a list
	maxTitle  = 300       // bytes in a list
	maxPerson = 120       // bytes of a name or address
	maxBody   = 128 << 10 // bytes
)

// commitLine is a commit in a list.
type commitLine struct {
	ID      object.ID
	Title   string
	Author  string
	Time    time.Time
	Names   []log.Decoration
	Graph   template.HTML
	Expired bool
	Held    bool
}

func newCommitLine(c log.Logged, names []log.Decoration) commitLine {
	title, _ := log.SplitMessage(c.Message)
	if title == "" {
		title = "(no message)"
	}
	return commitLine{
		ID: c.ID, Title: cut(title, maxTitle), Author: cut(c.Author.Name, maxPerson), Time: c.Committer.When(),
		Names: names[:min(len(names), maxNames)], Expired: c.Expired != nil, Held: c.Held != nil,
	}
}

// cut returns text with at most n bytes, and a mark if some are left out. It returns nothing
// if n is not positive.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	if n <= 0 {
		return ""
	}
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n] + "…"
}

// logPage is the content of the page with the history.
type logPage struct {
	Commits      []commitLine
	All          bool // of all branches and tags
	Path         string
	Newer, Older string // addresses; empty: there are none
	Skip         int
	Names        []refName
}

// showLog shows the history of a revision, or of all refs.
func (s *site) showLog(r *request) (page, error) {
	ctx := r.Context()
	l := logPage{Skip: r.numberParameter("skip", maxSkip), Path: r.parameter("path"), All: r.parameter("rev") == ""}
	names, starts, err := s.allNames(ctx)
	if err != nil {
		return page{}, err
	}
	l.Names = names[:min(len(names), maxRefs)]
	o := log.Options{Revs: starts}
	if !l.All {
		id, err := s.Resolve(ctx, r.revision())
		if err != nil {
			return page{}, err
		}
		o.Revs = []string{id.String()}
	}
	if l.Path != "" {
		v, err := s.Open(ctx, "")
		if err == nil {
			err = v.Rules.MayRead(ctx, l.Path)
		}
		if err != nil {
			return page{}, err
		}
		o.Paths = []string{l.Path}
	}
	p := page{name: "log", Title: "History", Nav: "history"}
	if len(o.Revs) == 0 {
		p.Data = l
		return p, nil
	}

	decorations := log.Decorations(ctx, s.Repo, false)
	viewer := s.Viewer(ctx)
	var graph lanes
	at := 0
	for c, err := range log.Commits(ctx, s.Repo, o) {
		if err != nil {
			return page{}, err
		}
		if l.Path != "" { // the commit may be the only trace of a hidden file
			if ok, err := viewer.Touched(ctx, c.ID, c.Parents, l.Path); err != nil {
				return page{}, err
			} else if !ok {
				continue
			}
		}
		if len(l.Commits) == perPage {
			l.Older = l.pageAddress(r, l.Skip+perPage)
			break
		}
		parents := c.Parents[:min(len(c.Parents), maxMerge)]
		var row template.HTML
		if l.Path == "" {
			row = graph.addRow(c.ID, parents)
		}
		if at++; at > l.Skip {
			line := newCommitLine(c, decorations[c.ID])
			line.Graph = row
			l.Commits = append(l.Commits, line)
		}
	}
	if l.Skip > 0 {
		l.Newer = l.pageAddress(r, max(0, l.Skip-perPage))
	}
	p.Data = l
	return p, nil
}

// pageAddress returns the address of another page of the same history.
func (l *logPage) pageAddress(r *request, skip int) string {
	v := url.Values{}
	if !l.All {
		v.Set("rev", r.rev)
	}
	if l.Path != "" {
		v.Set("path", l.Path)
	}
	if skip > 0 {
		v.Set("skip", strconv.Itoa(skip))
	}
	if len(v) == 0 {
		return "/log"
	}
	return "/log?" + v.Encode()
}
