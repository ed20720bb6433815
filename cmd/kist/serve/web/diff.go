package web

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// The limits of a page with differences.
const (
	maxChanges  = 100       // paths
	maxDiffText = 512 << 10 // bytes of a file that is compared
	maxDiffRows = 4000      // lines in all
	maxFileRows = 500       // lines of a file, beside others
	maxOwnRows  = 10_000    // lines in all, on a page about one path
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
	Alone          string // address of the difference of this file alone, if it is not complete here
	Properties     []property
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
	All            int // changed paths, also on other pages
	Skip           int // changed paths on the pages before
	Added, Deleted int // lines, on this page
	Next, Previous string
}

// First returns the number of the first path on the page.
func (d *diffs) First() int { return d.Skip + 1 }

// Last returns the number of the last path on the page.
func (d *diffs) Last() int { return d.Skip + len(d.Files) }

// comparison says what a page compares.
type comparison struct {
	old, new *serve.VisibleCommit
	path     string // "" means all
	skip     int    // changed paths on the pages before
	page     string // address of the page
	query    url.Values
}

// pageAddress returns the address of a page of the comparison.
func (c *comparison) pageAddress(skip int) string {
	v := maps.Clone(c.query)
	if v == nil {
		v = url.Values{}
	}
	if skip > 0 {
		v.Set("skip", strconv.Itoa(skip))
	}
	return withQuery(c.page, v)
}

// differ compares two commits for a page.
type differ struct {
	site *site
	comparison
	room room // for lines
	end  time.Time
}

// compareCommits returns the differences of two commits, as many as a page shows.
func (s *site) compareCommits(ctx context.Context, c comparison) (*diffs, error) {
	var paths []string
	rows := maxDiffRows
	if c.path != "" {
		paths, rows = []string{c.path}, maxOwnRows
	}
	changes, err := compare.Diff(ctx, c.old.Side, c.new.Side, paths, true)
	if err != nil {
		return nil, err
	}
	d := differ{site: s, comparison: c, room: room{rows, maxShown}, end: time.Now().Add(maxComparing)}
	out := &diffs{Skip: c.skip}
	for _, change := range changes {
		change, visible, err := serve.VisibleChange(ctx, c.old, c.new, change)
		if err != nil {
			return nil, err
		}
		if !visible {
			continue
		}
		if out.All++; out.All <= c.skip || len(out.Files) == maxChanges {
			continue
		}
		f, err := d.fileDiff(ctx, change)
		if err != nil {
			return nil, err
		}
		f.Anchor = fmt.Sprintf("file-%d", out.All)
		out.Files = append(out.Files, f)
		out.Added += f.Added
		out.Deleted += f.Deleted
	}
	if c.skip > 0 {
		out.Previous = c.pageAddress(max(0, c.skip-maxChanges))
	}
	if out.Last() < out.All {
		out.Next = c.pageAddress(out.Last())
	}
	return out, nil
}

// fileDiff returns the difference of a path.
func (d *differ) fileDiff(ctx context.Context, c tree.Change) (fileDiff, error) {
	f := fileDiff{Change: c, OldRev: d.old.Commit.String(), NewRev: d.new.Commit.String(), Form: "none"}
	f.Letter, f.Word = string(c.Letter()), letterWords[c.Letter()]
	if c.New != nil {
		f.Properties = changedProperties(c.Old, c.New)
	}
	err := d.fillDiff(ctx, &f)
	return f, err
}

// addressAlone returns the address of the difference of a path alone, or "" if this is it.
func (d *differ) addressAlone(f *fileDiff) string {
	if d.path != "" || d.old.Commit.IsZero() {
		return ""
	}
	return "/diff?" + url.Values{"from": {f.OldRev}, "to": {f.NewRev}, "path": {f.Path}}.Encode()
}

// letterWords are the meanings of [tree.Change.Letter].
var letterWords = map[byte]string{'A': "added", 'D': "deleted", 'R': "renamed", 'T': "type changed", 'M': "modified"}

// fillDiff sets the form of a difference, and its lines if it is text.
func (d *differ) fillDiff(ctx context.Context, f *fileDiff) error {
	switch {
	case tree.IsDir(f.Old) || tree.IsDir(f.New):
		return nil
	case f.Old != nil && f.New != nil && sameData(f.Old, f.New):
		f.Form, f.Note = "same", "The content is the same."
		return nil
	case isPicture(f.Path, f.New) && isPicture(f.OldPath(), f.Old) && (f.Old != nil || f.New != nil):
		f.Form = "image"
		return nil
	case !d.room.takeLine("") || time.Now().After(d.end):
		f.Note, f.Alone = "Not compared here, to keep the page short.", d.addressAlone(f)
		return nil
	}

	old, err := d.diffText(ctx, d.old, f.Old)
	var new text
	if err == nil {
		new, err = d.diffText(ctx, d.new, f.New)
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
	space := d.room
	if d.path == "" { // a large file leaves space for others
		space = room{min(space.lines, maxFileRows), min(space.bytes, maxShown/8)}
	}
	before := space
	f.Rows, f.Added, f.Deleted = rowsOf(tree.Unified("a", "b", old.data, new.data, tree.TextOptions{Context: 3}), &space)
	d.room.lines -= before.lines - space.lines
	d.room.bytes -= before.bytes - space.bytes
	if n := len(f.Rows); n > 0 && f.Rows[n-1].Text == leftOut {
		f.Alone = d.addressAlone(f)
	}
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

func (d *differ) diffText(ctx context.Context, v *serve.VisibleCommit, e *object.Entry) (text, error) {
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
	if why := whyUnreadable(err); why != "" {
		return text{reason: why}, nil
	}
	if err == nil && !tree.IsText(data) {
		return text{reason: "Not text."}, nil
	}
	return text{data: data}, err
}

// leftOut is the last line of a difference that is not complete.
const leftOut template.HTML = "More lines differ. They are left out to keep the page short."

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
		if full = !space.takeLine(row.Text); full {
			row = diffRow{Kind: "note", Text: leftOut}
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
