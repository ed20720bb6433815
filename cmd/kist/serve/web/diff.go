package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/refs/log"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/view"
)

// The limits of a page with differences.
const (
	maxChanges  = 1000      // paths that are listed
	maxDiffs    = 100       // files whose differences are shown
	maxDiffText = 512 << 10 // bytes of a file that is compared
	maxDiffRows = 10_000    // lines in all
)

var maxComparing = 4 * time.Second

// diffRow is a line of a difference.
type diffRow struct {
	Kind     string // "add", "delete", "same", "hunk" or "note"
	Old, New int    // line numbers; 0: the line is not in this version
	Text     template.HTML
}

// fileDiff is the difference of one file.
type fileDiff struct {
	tree.Change
	Letter         string // of git, as in "M"
	Word           string // the meaning of the letter
	Anchor         string // in the page
	Form           string // "text", "image", "same" or "none"
	OldRev, NewRev string // for addresses
	Rows           []diffRow
	Added, Deleted int
	Note           string // why there is no difference to see
}

// OldPath returns the path in the old version.
func (d *fileDiff) OldPath() string {
	if d.From != "" {
		return d.From
	}
	return d.Path
}

// diffs are the differences of two commits.
type diffs struct {
	Files          []fileDiff
	More           int // changed paths that are not listed
	Added, Deleted int // lines
}

// differ compares two commits for a page.
type differ struct {
	site     *site
	old, new *serve.Commit
	room     room // for lines
	shown    int  // files so far
	end      time.Time
}

// compare returns the differences of two commits at some paths; none means all.
func (s *site) compare(ctx context.Context, old, new *serve.Commit, paths ...string) (*diffs, error) {
	changes, err := view.Diff(ctx, old.View, new.View, paths, true)
	if err != nil {
		return nil, err
	}
	d := differ{site: s, old: old, new: new, room: room{maxDiffRows, maxShown}, end: time.Now().Add(maxComparing)}
	out := &diffs{}
	for _, c := range changes {
		c, visible, err := serve.VisibleChange(ctx, old, new, c)
		if err != nil {
			return nil, err
		}
		if !visible {
			continue
		}
		f := fileDiff{Change: c, OldRev: old.Commit.String(), NewRev: new.Commit.String(), Form: "none"}
		if len(out.Files) == maxChanges {
			out.More++
			continue
		}
		f.Letter, f.Word = string(c.Letter()), letterWords[c.Letter()]
		f.Anchor = fmt.Sprintf("file-%d", len(out.Files)+1)
		if err := d.fill(ctx, &f); err != nil {
			return nil, err
		}
		out.Files = append(out.Files, f)
		out.Added += f.Added
		out.Deleted += f.Deleted
	}
	return out, nil
}

// letterWords are the meanings of [tree.Change.Letter].
var letterWords = map[byte]string{'A': "added", 'D': "deleted", 'R': "renamed", 'T': "type changed", 'M': "modified"}

// fill sets the form of a difference, and its lines if it is text.
func (d *differ) fill(ctx context.Context, f *fileDiff) error {
	switch {
	case tree.IsDir(f.Old) || tree.IsDir(f.New):
		return nil
	case f.Old != nil && f.New != nil && sameData(f.Old, f.New):
		f.Form, f.Note = "same", "Only attributes, times or permissions differ."
		return nil
	case isPicture(f.Path, f.New) && isPicture(f.OldPath(), f.Old) && (f.Old != nil || f.New != nil):
		f.Form = "image"
		return nil
	case d.shown == maxDiffs || !d.room.take("") || time.Now().After(d.end):
		f.Note = "Not compared here, to keep the page short."
		return nil
	}
	d.shown++

	old, err := d.text(ctx, d.old, f.Old)
	var new text
	if err == nil {
		new, err = d.text(ctx, d.new, f.New)
	}
	if err != nil {
		return err
	}
	if f.Note = old.reason; f.Note == "" {
		f.Note = new.reason
	}
	if f.Note != "" {
		return nil
	}
	f.Form = "text"
	f.Rows, f.Added, f.Deleted = rowsOf(tree.Unified("a", "b", old.data, new.data, tree.TextOptions{Context: 3}), &d.room)
	return nil
}

// isPicture reports whether a side of a change is a picture, or does not exist.
func isPicture(path string, e *object.Entry) bool {
	_, name := tree.Split(path)
	return e == nil || e.Type == object.TypeFile && e.Size <= maxPicture && kindOf(name) == "image" && !strings.HasSuffix(strings.ToLower(name), ".svg")
}

// maxPicture is the size of the largest picture that a difference shows.
const maxPicture = 64 << 20

// sameData reports whether two entries have the same content.
func sameData(a, b *object.Entry) bool {
	return a.Type == b.Type && a.Size == b.Size && a.Target == b.Target && tree.ContentID(a) == tree.ContentID(b)
}

// text is one side of a difference.
type text struct {
	data   []byte
	reason string // why it cannot be compared
}

func (d *differ) text(ctx context.Context, v *serve.Commit, e *object.Entry) (text, error) {
	switch {
	case e == nil:
		return text{}, nil
	case e.Type == object.TypeSymlink:
		return text{data: []byte(e.Target)}, nil
	case e.Type != object.TypeFile:
		return text{}, nil
	case e.Size > maxDiffText:
		return text{reason: "Too large to be compared here."}, nil
	}
	data, err := v.ReadContent(ctx, d.site.Repo, "", *e, maxDiffText)
	switch {
	case errors.Is(err, object.ErrPurged):
		return text{reason: "The content was purged."}, nil
	case errors.Is(err, object.ErrNotFound), errors.Is(err, object.ErrCorrupt):
		return text{reason: "The content is damaged or missing here."}, nil
	case err == nil && !tree.IsText(data):
		return text{reason: "Not text."}, nil
	}
	return text{data: data}, err
}

// rowsOf returns the lines of a difference in the unified format, as far as there is space.
func rowsOf(unified []byte, space *room) (rows []diffRow, added, deleted int) {
	old, new := 0, 0
	started, full := false, false
	for line := range bytes.Lines(unified) {
		content := strings.TrimSuffix(string(line), "\n")
		row := diffRow{Kind: "same"}
		switch {
		case strings.HasPrefix(content, "@@ "):
			started = true
			row.Kind = "hunk"
			old, new = hunkStart(content)
			row.Text = visible(cut(content, maxLine))
		case !started || content == "":
			continue
		case content[0] == '+':
			row.Kind, row.New = "add", new
			new, added = new+1, added+1
		case content[0] == '-':
			row.Kind, row.Old = "delete", old
			old, deleted = old+1, deleted+1
		case content[0] == '\\':
			row.Kind, row.Text = "note", "No newline at the end"
		default:
			row.Old, row.New = old, new
			old, new = old+1, new+1
		}
		if full { // the rest is only counted
			continue
		}
		if row.Text == "" {
			row.Text = visible(cut(strings.TrimSuffix(content[1:], "\r"), maxLine))
		}
		if full = !space.take(row.Text); full {
			row = diffRow{Kind: "note", Text: "More lines differ. They are left out to keep the page short."}
		}
		rows = append(rows, row)
	}
	return rows, added, deleted
}

// hunkStart returns the first line numbers of a hunk, from its head.
func hunkStart(head string) (old, new int) {
	if _, err := fmt.Sscanf(head, "@@ -%d", &old); err != nil {
		return 0, 0
	}
	if _, after, ok := strings.Cut(head, " +"); ok {
		_, _ = fmt.Sscanf(after, "%d", &new)
	}
	return old, new
}

// commitPage is the content of the page with a commit.
type commitPage struct {
	commitLine
	*object.Commit
	Title, Body string
	Parents     []object.ID // the first ones
	Same        bool        // author and committer are the same
	Diffs       *diffs
	Gone        string // why its content is not there
	All         bool   // the visitor may read everything in it
}

// commit shows a commit and its changes since its first parent.
func (s *site) commit(r *request) (page, error) {
	ctx := r.Context()
	r.rev = r.PathValue("id")
	id, err := s.Resolve(ctx, r.rev)
	if err != nil {
		return page{}, err
	}
	c, err := object.ReadCommit(ctx, s.Repo.Objects(), id)
	if err != nil {
		return page{}, err
	}
	r.rev = id.String()
	records, err := s.Repo.RecordViewOrEmpty()
	if err != nil {
		return page{}, err
	}
	names := log.Decorations(ctx, s.Repo, false)[id]
	out := commitPage{commitLine: newCommitLine(log.One(records, id, c), names), Commit: c, Parents: c.Parents[:min(len(c.Parents), maxMerge)]}
	title, body := log.SplitMessage(c.Message)
	out.Title, out.Body = cut(cmp.Or(title, "(no message)"), maxBody), cut(body, maxBody)
	out.Same = c.Author == c.Committer
	p := page{name: "commit", Title: cut(out.Title, 120), Nav: "history"}

	if out.All, err = s.Viewer(ctx).ReadsAll(ctx, id); err != nil {
		return page{}, err
	}
	new, err := r.site.Open(r.Context(), r.rev)
	switch {
	case errors.Is(err, intact.ErrExpired):
		out.Gone = "The content of this commit has expired: a retention policy gave it up."
	case err != nil:
		return page{}, err
	default:
		var parent object.ID
		if len(c.Parents) > 0 {
			parent = c.Parents[0]
		}
		before, err := log.Before(ctx, s.Repo, records, parent)
		if err != nil {
			return page{}, err
		}
		old := &serve.Commit{View: before, Rules: new.Rules} // an empty one
		if !before.Commit.IsZero() {
			if old, err = s.Open(ctx, before.Commit.String()); err != nil {
				return page{}, err
			}
		}
		if out.Diffs, err = s.compare(ctx, old, new); err != nil {
			return page{}, err
		}
	}
	p.Data = out
	return p, nil
}

// diffPage is the content of the page with the differences of two commits.
type diffPage struct {
	From, To string
	Path     string
	Parts    []part
	Diffs    *diffs
	Swap     string // address of the opposite comparison
}

// diff shows the differences between two commits, in all files or at one path.
func (s *site) diff(r *request) (page, error) {
	out := diffPage{From: r.query("from"), To: r.query("to"), Path: r.query("path")}
	if at := r.query("at"); at != "" { // escaped, since fields of forms cannot have all bytes
		out.Path, _ = url.PathUnescape(at)
	}
	p := page{name: "diff", Title: "Compare", Nav: "history"}
	if out.From == "" && out.To == "" {
		p.Data = out
		return p, nil
	}
	if out.To == "" {
		out.To = "HEAD"
	}
	if out.From == "" {
		out.From = "HEAD"
	}
	old, err := r.site.Open(r.Context(), out.From)
	if err != nil {
		return page{}, err
	}
	new, err := r.site.Open(r.Context(), out.To)
	if err != nil {
		return page{}, err
	}
	var paths []string
	if out.Path != "" {
		if err := tree.CheckPath(out.Path); err != nil {
			return page{}, tree.ErrNotExist
		}
		if err := errors.Join(old.Rules.MayRead(r.Context(), out.Path), new.Rules.MayRead(r.Context(), out.Path)); err != nil {
			return page{}, err
		}
		paths = []string{out.Path}
		out.Parts = partsOf(out.Path)
	}
	if out.Diffs, err = s.compare(r.Context(), old, new, paths...); err != nil {
		return page{}, err
	}
	v := url.Values{"from": {out.To}, "to": {out.From}}
	if out.Path != "" {
		v.Set("path", out.Path)
	}
	out.Swap = "/diff?" + v.Encode()
	r.rev = out.To
	p.Data = out
	return p, nil
}
