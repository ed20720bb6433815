package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
)

//go:embed templates
var templates embed.FS

// page is the answer to a request. The fields in capitals are for its template.
type page struct {
	name     string // of the template
	status   int    // 0: OK
	redirect string // another address to go to instead

	Title   string
	Nav     string // the entry of the navigation
	Refresh int    // seconds after which the browser asks again; 0: never
	Data    any
	Names   []refName // that the visitor can choose from

	Site  string // name of the repository
	Rev   string // revision that the page shows
	Query string // of the search
	Write bool

	Restore bool // there is a worktree that the visitor may change
}

// pages has the templates, by name.
type pages map[string]*template.Template

// parsePages reads the templates. Each page stands in the layout.
func parsePages(now func() time.Time) (pages, error) {
	layout, err := template.New("layout.html").Funcs(functions(now)).ParseFS(templates, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, err
	}
	files, err := templates.ReadDir("templates")
	if err != nil {
		return nil, err
	}
	all := pages{}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		own, err := layout.Clone()
		if err == nil {
			all[name], err = own.ParseFS(templates, path.Join("templates", file.Name()))
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// functions are the functions of the templates.
func functions(now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"visible": visible, "plain": readable.Escape, "name": name, "size": size, "count": count, "address": address, "escaped": escaped,
		"stamp": func(t time.Time) template.HTML { return stamp(now(), t) },
		"short": short,
		"group": group,
		"add":   func(a, b int) int { return a + b },
		"base":  path.Base,
		"icon":  icon,
		"attrs": attributes,

		"shortRev": shortRev, "archive": archive, "at": versionAddress,
		"crumbs":   func(p page, parts []part) crumbs { return crumbs{p.Site, p.Rev, parts} },
		"folderOf": func(t treePage, rev string) folder { return folder{t, rev} },
		"pending":  func(d dashboardPage, key, none string) string { return d.whyEmpty(key, none) },
	}
}

// short returns the first digits of an ID, or the beginning of a text.
func short(v any) string {
	if id, ok := v.(object.ID); ok {
		return id.Short()
	}
	return cut(fmt.Sprint(v), maxPerson)
}

// attributes returns the first attributes of a file as texts.
func attributes(attrs map[string]string) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		if len(list) == maxNames {
			return append(list, "…")
		}
		list = append(list, cut(key, maxPerson)+"="+cut(attrs[key], maxTitle))
	}
	return list
}

// crumbs are the folders on the way to a path, for a template.
type crumbs struct {
	Site, Rev string
	Parts     []part
}

// folder is a page of a folder in a revision, for a template.
type folder struct {
	Folder treePage
	Rev    string
}

// icon returns an icon of the page's sprite. It is only decoration.
func icon(name string) template.HTML {
	return template.HTML(`<svg class="icon" aria-hidden="true" focusable="false"><use href="#i-` + template.HTMLEscapeString(name) + `"/></svg>`)
}

// writeAnswer writes the answer. If the template fails, the answer is a short error message.
func (all pages) writeAnswer(w http.ResponseWriter, r *request, p page) error {
	if p.redirect != "" {
		http.Redirect(w, r.Request, p.redirect, http.StatusSeeOther)
		return nil
	}
	p.Site, p.Rev, p.Query, p.Write = r.site.name, r.rev, r.parameter("q"), r.site.Write
	p.Restore = p.Write && !r.site.Repo.IsBare()
	if p.status == 0 {
		p.status = http.StatusOK
	}
	var b bytes.Buffer
	if err := all[p.name].Execute(&b, p); err != nil {
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return err
	}
	w.WriteHeader(p.status)
	_, err := w.Write(b.Bytes())
	return err
}
