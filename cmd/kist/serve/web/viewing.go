package web

import (
	"fmt"
	"net/url"
	"strconv"
)

// viewing says which part of a file a page shows, and how.
type viewing struct {
	Rev    string // for the addresses of pages
	Start  int    // number of the first line or row; 0: the first
	Source bool   // as text, even if there is a better form
}

// maxStart is the number of the last line or row that a page can begin with.
const maxStart = 1 << 30

// viewingParameters returns the part of a file that the address names, and its form.
func (r *request) viewingParameters() viewing {
	return viewing{Rev: r.rev, Start: r.numberParameter("start", maxStart), Source: r.parameter("as") == "source"}
}

// Next returns the address of the page with the next lines or rows, or "".
func (p *preview) Next() string {
	if !p.More {
		return ""
	}
	return p.pageAddress(viewing{Start: p.Start + p.shownRows(), Source: p.Source})
}

// Previous returns the address of the page with the lines or rows before, or "".
func (p *preview) Previous() string {
	if p.Start == 1 {
		return ""
	}
	n := maxRows
	if p.Sheet != nil {
		n = sheetRows
	}
	return p.pageAddress(viewing{Start: max(1, p.Start-n), Source: p.Source})
}

// Switch returns the address of the page with the file in its other form.
func (p *preview) Switch() string { return p.pageAddress(viewing{Source: !p.Source}) }

// Blameable reports whether there is a page with the origins of the lines.
func (p *preview) Blameable() bool {
	return (p.Lines != nil || p.Markdown != "" || p.Sheet != nil) && p.Entry.Size <= maxPreview
}

// SwitchName returns the name of the other form.
func (p *preview) SwitchName() string {
	switch {
	case !p.Source:
		return "Source"
	case isSheet(p.Path):
		return "Table"
	}
	return "Rendered"
}

// Page returns the address of the page with the file.
func (p *preview) Page() string { return p.pageAddress(viewing{}) }

// pageAddress returns the address of a page with the file.
func (p *preview) pageAddress(how viewing) string {
	how.Rev = p.viewing.Rev
	return how.pageAddress(p.Path)
}

// pageAddress returns the address of the page with a file.
func (how viewing) pageAddress(path string) string {
	v := url.Values{}
	if how.Rev != "" && how.Rev != "HEAD" {
		v.Set("rev", how.Rev)
	}
	if how.Start > 1 {
		v.Set("start", strconv.Itoa(how.Start))
	}
	if how.Source {
		v.Set("as", "source")
	}
	return withQuery(address("blob", path, ""), v)
}

// withQuery returns an address with a query.
func withQuery(address string, v url.Values) string {
	if len(v) == 0 {
		return address
	}
	return address + "?" + v.Encode()
}

// lineAddress returns the address of a line of a file.
func lineAddress(path, rev string, number int) string {
	how := viewing{Rev: rev, Source: isMarkdown(path) || isSheet(path)}
	if number > maxRows {
		how.Start = number - maxAbove
	}
	return fmt.Sprintf("%s#L%d", how.pageAddress(path), number)
}
