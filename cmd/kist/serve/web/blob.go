package web

import (
	"context"
	"errors"
	"html/template"
	"io"
	"path"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// The most of a text that a page shows.
const (
	maxPreview = 512 << 10 // bytes
	maxRows    = 20_000    // lines
)

// preview is a file as a page shows it.
type preview struct {
	Path  string
	Rev   string // for the address of the content
	Entry object.Entry
	Type  string // media type
	Form  string // "image", "audio", "video", "pdf", "text", "link" or "none"
	Lines []template.HTML
	Cut   bool   // the file has more text
	Gone  string // why the content cannot be read
}

// preview returns the preview of a file. Its content comes from the commit of the view, so
// the address stays right when a branch moves on.
func (s *site) preview(ctx context.Context, v *serve.Commit, path string, e object.Entry) (*preview, error) {
	p := &preview{Path: path, Rev: v.Commit.String(), Entry: e, Form: "none"}
	switch e.Type {
	case object.TypeSymlink:
		p.Form = "link"
		return p, nil
	case object.TypeFile:
	default:
		return p, nil
	}

	err := p.read(ctx, s, v)
	switch {
	case errors.Is(err, object.ErrPurged):
		p.Gone = "The content was purged."
	case errors.Is(err, object.ErrNotFound), errors.Is(err, object.ErrCorrupt):
		p.Gone = "The content is damaged or missing here. 'kist verify' shows more, and 'kist repair' may bring it back."
	default:
		return p, err
	}
	return p, nil
}

// read finds the form of a file, and reads a text.
func (p *preview) read(ctx context.Context, s *site, v *serve.Commit) error {
	var err error
	if p.Type, err = s.ContentType(ctx, v, p.Entry); err != nil {
		return err
	}
	media, _, _ := strings.Cut(p.Type, ";")
	byName := kindOf(path.Base(p.Path))
	switch {
	case strings.HasPrefix(media, "image/") && byName == "image", media == "image/svg+xml":
		p.Form = "image"
	case strings.HasPrefix(media, "audio/"), strings.HasPrefix(media, "video/"):
		p.Form = media[:5]
	case byName == "audio" || byName == "video":
		p.Form = byName
	case media == "application/pdf":
		p.Form = "pdf"
	}
	if p.Form != "none" {
		return nil
	}

	data, err := io.ReadAll(io.LimitReader(object.NewContentReader(ctx, v.Objects, p.Entry), maxPreview))
	if err != nil || !tree.IsText(data) {
		return err
	}
	p.Form, p.Cut = "text", p.Entry.Size > uint64(len(data))
	p.Lines = s.painter.highlighted(ctx, p.Path, data)
	space := room{maxRows, maxShown}
	for i, line := range p.Lines {
		if !space.take(line) {
			p.Lines, p.Cut = p.Lines[:i], true
			break
		}
	}
	return nil
}

// blobPage is the content of the page with a file.
type blobPage struct {
	*preview
	Parts  []part
	Commit object.ID // of the tree
}

// blob shows a file.
func (s *site) blob(r *request) (page, error) {
	ctx := r.Context()
	v, err := r.look()
	if err != nil {
		return page{}, err
	}
	path := strings.TrimSuffix(r.PathValue("path"), "/")
	e, err := v.Find(ctx, path)
	if err != nil {
		return page{}, err
	}
	if e.Type == object.TypeDir {
		return page{redirect: address("tree", path, r.rev)}, nil
	}
	p, err := s.preview(ctx, v, path, e)
	if err != nil {
		return page{}, err
	}
	names, _, err := s.refNames()
	if err != nil {
		return page{}, err
	}
	_, title := tree.Split(path)
	return page{name: "blob", Title: title, Nav: "files", Data: blobPage{p, partsOf(path), v.Commit}, Names: names}, nil
}
