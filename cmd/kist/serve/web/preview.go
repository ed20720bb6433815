package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"html/template"
	"io"
	"path"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// The most of a text that a page shows. A reader of a later part reads all before it.
const (
	maxPreview = 512 << 10 // bytes of text that are looked at to find the sort of a file
	maxRows    = 2000      // lines
	maxAbove   = 20        // lines before the one that an address names
	maxScanned = 64 << 20  // bytes of a file that are read for a part of it
)

// preview is a file as a page shows it.
type preview struct {
	Path  string
	Rev   string // for the address of the content
	Entry object.Entry
	Type  string // media type
	Form  string // "image", "audio", "video", "pdf", "text", "markdown", "sheet", "link" or "none"

	viewing
	Lines    []template.HTML
	Sheet    *sheet
	Markdown template.HTML
	Cut      bool   // the file has more text than the pages show
	More     bool   // the file has more lines or rows, on the next page
	Other    bool   // the file can be shown as its source, and in a better form
	Gone     string // why the content cannot be read
}

// previewFile returns the preview of a file. Its content comes from the commit of the view, so
// the address stays right when a branch moves on.
func (s *site) previewFile(ctx context.Context, v *serve.VisibleCommit, path string, e object.Entry, how viewing) (*preview, error) {
	how.Start = max(1, how.Start)
	p := &preview{Path: path, Rev: v.Commit.String(), Entry: e, Form: "none", viewing: how}
	switch e.Type {
	case object.TypeSymlink:
		p.Form = "link"
		return p, nil
	case object.TypeFile:
	default:
		return p, nil
	}

	err := p.readFile(ctx, s, v)
	if p.Gone = whyUnreadable(err); p.Gone != "" {
		return p, nil
	}
	return p, err
}

// readFile finds the form of a file, and reads a text.
func (p *preview) readFile(ctx context.Context, s *site, v *serve.VisibleCommit) error {
	var err error
	if p.Type, err = s.ContentType(ctx, v, p.Entry); err != nil {
		return err
	}
	media, _, _ := strings.Cut(p.Type, ";")
	byName := kindOf(path.Base(p.Path))
	p.Other = media == "image/svg+xml"
	switch {
	case p.Other && p.Source:
	case strings.HasPrefix(media, "image/") && byName == "image", p.Other:
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

	content, isnt := asUTF8(object.NewContentReader(ctx, v.Objects, p.Entry))
	head, err := io.ReadAll(io.LimitReader(content, maxPreview))
	if err != nil || !tree.IsText(head) || isnt() {
		return err
	}
	if isMarkdown(p.Path) || isSheet(p.Path) {
		if p.Other = true; !p.Source {
			if p.Other, err = p.readForm(ctx, s, head, content); p.Other || err != nil {
				return err
			}
			content, _ = asUTF8(object.NewContentReader(ctx, v.Objects, p.Entry))
			_, err = io.CopyN(io.Discard, content, int64(len(head)))
		}
	}
	if err != nil {
		return err
	}
	return p.readText(ctx, s, head, content)
}

// readForm reads a text in the form that fits its name. It returns false if it has another one.
// The rest follows the head.
func (p *preview) readForm(ctx context.Context, s *site, head []byte, rest io.Reader) (ok bool, err error) {
	if isMarkdown(p.Path) {
		var complete bool
		p.Markdown, complete = s.markdown.renderHTML(ctx, linkBase{p.Path, p.viewing.Rev}, head)
		if p.Markdown == "" {
			return false, ctx.Err()
		}
		p.Form, p.Cut = "markdown", !complete
		return true, nil
	}

	text := &io.LimitedReader{R: io.MultiReader(bytes.NewReader(head), rest), N: maxScanned}
	p.Sheet, p.More, err = readSheet(text, p.Path, p.Start)
	var wrong *csv.ParseError
	if errors.As(err, &wrong) || errors.Is(err, errNoSheet) || err == nil && len(p.Sheet.Head) == 0 {
		p.Sheet = nil
		return false, nil
	}
	p.Form, p.Cut = "sheet", text.N == 0 && !p.More
	return err == nil, err
}

// readText reads lines of a text. The rest follows the head.
func (p *preview) readText(ctx context.Context, s *site, head []byte, rest io.Reader) error {
	p.Form = "text"
	space := room{maxRows, maxShown}
	if p.Entry.Size <= maxHighlighted {
		lines := s.painter.highlighted(ctx, p.Path, head)
		for _, line := range lines[min(p.Start-1, len(lines)):] {
			if p.More = !space.takeLine(line); p.More {
				break
			}
			p.Lines = append(p.Lines, line)
		}
		return nil
	}

	text := &io.LimitedReader{R: io.MultiReader(bytes.NewReader(head), rest), N: maxScanned}
	err := eachLine(text, func(number int, line []byte) bool {
		if number < p.Start {
			return true
		}
		shown := visible(cut(string(line), maxLine))
		if p.More = !space.takeLine(shown); p.More {
			return false
		}
		p.Lines = append(p.Lines, shown)
		return true
	})
	p.Cut = text.N == 0 && !p.More
	return err
}

// eachLine calls fn with the lines of a text, without their ends, until it returns false. Only the
// first bytes of a long line are passed.
func eachLine(text io.Reader, fn func(number int, line []byte) bool) error {
	r := bufio.NewReaderSize(text, 64<<10)
	for number := 1; ; number++ {
		line, err := r.ReadSlice('\n')
		for err == bufio.ErrBufferFull {
			line = bytes.Clone(line[:maxLine+1])
			_, err = r.ReadSlice('\n')
		}
		if err != nil && (err != io.EOF || len(line) == 0) {
			if err == io.EOF {
				err = nil
			}
			return err
		}
		if !fn(number, bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))) {
			return nil
		}
	}
}

// shownRows returns the number of lines or rows on the page.
func (p *preview) shownRows() int {
	if p.Sheet != nil {
		return len(p.Sheet.Rows)
	}
	return len(p.Lines)
}

// Last returns the number of the last line or row on the page.
func (p *preview) Last() int { return p.Start + p.shownRows() - 1 }
