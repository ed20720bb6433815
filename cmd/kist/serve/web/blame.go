package web

import (
	"context"
	"errors"
	"html/template"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/blame"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// maxBlaming is the longest that a page looks for the origins of lines. Meanwhile, the index of
// history serves no other page.
var maxBlaming = 5 * time.Second

// blamePage is the content of the page with the origins of the lines of a file.
type blamePage struct {
	*preview
	Parts []part
	Hunks []hunk
}

// hunk is a run of lines with one origin.
type hunk struct {
	Commit *commitLine // nil: the visitor may not see that version
	From   string      // the path of the file there, if it was another
	Lines  []numberedLine
}

type numberedLine struct {
	Number int
	Text   template.HTML
}

// errNoBlame means that a file has no lines to look at.
var errNoBlame = &shownError{"Nothing to show", "This is not a text, or it is too large for this page. 'kist blame' has no such limit.", http.StatusUnprocessableEntity}

// errBlameTime means that the origins of lines are not known in time.
var errBlameTime = &shownError{"This takes too long", "The history of these lines is long. 'kist blame' has no limit.", http.StatusServiceUnavailable}

// showBlame shows the commits that brought the lines of a file.
func (s *site) showBlame(r *request) (page, error) {
	v, err := r.openCommit()
	if err != nil {
		return page{}, err
	}
	at := strings.TrimSuffix(r.PathValue("path"), "/")
	e, err := v.Find(r.Context(), at)
	if err != nil {
		return page{}, err
	}
	if e.Type != object.TypeFile || e.Size > maxPreview {
		return page{}, errNoBlame
	}
	out := blamePage{Parts: partsOf(at)}
	how := r.viewingParameters()
	how.Source = true
	if out.preview, err = s.previewFile(r.Context(), v, at, e, how); err != nil {
		return page{}, err
	}
	if out.Form != "text" {
		return page{}, errNoBlame
	}
	p := page{name: "blame", Title: "Blame of " + path.Base(at), Nav: "files"}

	ctx, stop := context.WithTimeout(r.Context(), maxBlaming)
	defer stop()
	err = s.versions.useIndex(r.Context(), maxIndexing, func(x *versions.Index) error { return out.findOrigins(ctx, s, v, x) })
	switch {
	case errors.Is(err, errIndexing):
		return indexing, nil
	case err != nil && ctx.Err() != nil && r.Context().Err() == nil:
		return page{}, errBlameTime
	case err != nil:
		return page{}, err
	}
	p.Names, err = s.refNames(r.Context())
	p.Data = &out
	return p, err
}

// findOrigins sets the origins of the lines on the page.
func (b *blamePage) findOrigins(ctx context.Context, s *site, v *serve.VisibleCommit, x *versions.Index) error {
	data, err := io.ReadAll(io.LimitReader(object.NewContentReader(ctx, v.Objects, b.Entry), maxPreview))
	if err != nil {
		return err
	}
	first := b.Start - 1
	f := &blame.File{FileInCommit: blame.FileInCommit{Commit: v.Commit, Path: b.Path}, Entry: b.Entry, View: v.Side}
	text := tree.SplitLines(data)
	last := min(first+len(b.Lines), len(text))
	if first >= last {
		return nil
	}
	list, err := blame.ByLines(ctx, s.Repo, f, text, blame.Options{Index: x, Lines: []blame.Lines{{Lo: first, Hi: last}}})
	if err != nil {
		return err
	}

	viewer := s.Viewer(ctx)
	known := map[object.ID]*commitLine{}
	for _, of := range list {
		h := hunk{}
		sees, err := viewer.Sees(ctx, of.Origin.Path, of.Origin.Commit)
		if err != nil {
			return err
		}
		if sees {
			if h.Commit, err = s.lineOf(ctx, known, of.Origin.Commit); err != nil {
				return err
			}
			if of.Origin.Path != b.Path {
				h.From = of.Origin.Path
			}
		}
		for i := of.Lo; i < of.Hi; i++ {
			h.Lines = append(h.Lines, numberedLine{i + 1, b.Lines[i-first]})
		}
		b.Hunks = append(b.Hunks, h)
	}
	return nil
}

// lineOf returns a commit as a line of a list.
func (s *site) lineOf(ctx context.Context, known map[object.ID]*commitLine, id object.ID) (*commitLine, error) {
	if line := known[id]; line != nil {
		return line, nil
	}
	c, err := object.ReadCommit(ctx, s.Repo.Objects(), id)
	if err != nil {
		return nil, err
	}
	known[id] = new(newCommitLine(log.Logged{ID: id, Commit: c}, nil))
	return known[id], nil
}

// Next returns the address of the page with the next lines, or "".
func (b *blamePage) Next() string { return b.blameAddress(b.preview.Next()) }

// Previous returns the address of the page with the lines before, or "".
func (b *blamePage) Previous() string { return b.blameAddress(b.preview.Previous()) }

// blameAddress returns the address of this page for that of the same part of the file.
func (b *blamePage) blameAddress(file string) string {
	if file == "" {
		return ""
	}
	return "/blame/" + strings.TrimPrefix(file, "/blob/")
}
