package web

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// maxVersions is the most versions of a file that a page lists, the newest ones.
const maxVersions = 2000

// fileVersion is a version in the list of a file's history.
type fileVersion struct {
	versions.Version
	Word   string // the kind of change
	When   time.Time
	Title  string // of the commit
	Author string

	Changes string // address of the comparison with the version before; empty: it is the first one
}

// historyPage is the content of the page with the versions of a file.
type historyPage struct {
	Path     string
	Parts    []part
	Versions []fileVersion // newest first
	Left     int           // older versions that are not listed
	Dir      bool

	At           *fileVersion // the version that is shown; nil: of a folder
	Older, Newer int          // numbers of the versions beside it; 0: none
	Newest       int          // number of the newest version
	Shown        *preview
	Gone         string
}

// showHistory shows the versions of a file, and one of them.
func (s *site) showHistory(r *request) (page, error) {
	v, err := r.openCommit()
	if err != nil {
		return page{}, err
	}
	h := historyPage{Path: strings.TrimSuffix(r.PathValue("path"), "/")}
	if err := v.Rules.MayRead(r.Context(), h.Path); err != nil {
		return page{}, err
	}
	_, title := tree.Split(h.Path)
	p := page{name: "history", Title: "History of " + title, Nav: "history"}
	if h.Path == "" {
		return page{redirect: "/log"}, nil
	}
	h.Parts = partsOf(h.Path)

	found := false
	err = s.versions.useIndex(r.Context(), maxIndexing, func(x *versions.Index) error {
		file, err := x.File(r.Context(), versions.Tip{Name: r.rev, Commit: v.Commit}, h.Path)
		if err != nil || file == nil {
			return err
		}
		found = true
		return h.listVersions(r, x, file)
	})
	if errors.Is(err, errIndexing) {
		return indexing, nil
	}
	if err != nil {
		return page{}, err
	}
	if !found {
		return page{}, tree.ErrNotExist
	}
	if len(h.Versions) == 0 { // a hidden file that was deleted does not exist
		if _, err := v.Find(r.Context(), h.Path); err != nil {
			return page{}, err
		}
	}
	if err := h.showVersion(r); err != nil {
		return page{}, err
	}
	p.Data = h
	p.Names, err = s.refNames(r.Context())
	return p, err
}

// listVersions sets the versions of a file that the visitor may read.
func (h *historyPage) listVersions(r *request, x *versions.Index, file *versions.Life) error {
	s, viewer := r.site, r.site.Viewer(r.Context())
	first := max(0, len(file.Versions)-maxVersions)
	h.Left = first
	for i := len(file.Versions) - 1; i >= first; i-- {
		v, may, err := viewer.Version(r.Context(), x, file.Versions[i])
		if err != nil {
			return err
		}
		if !may {
			continue
		}
		c, err := object.ReadCommit(r.Context(), s.Repo.Objects(), v.Commit)
		if err != nil {
			return err
		}
		title, _ := log.SplitMessage(c.Message)
		h.Newest = max(h.Newest, v.Number)
		word, changes := jsonform.ChangeWord(&v), ""
		if v.Moved {
			word = "moved away"
		}
		if i > 0 && v.Type != 0 && file.Versions[i-1].Type != 0 {
			changes = "/diff?" + url.Values{"from": {file.Versions[i-1].Commit.String()}, "to": {v.Commit.String()}, "path": {v.Path}}.Encode()
		}
		h.Versions = append(h.Versions, fileVersion{Version: v, Word: word, When: time.Unix(v.Time, 0), Title: cut(title, maxTitle), Author: cut(c.Author.Name, maxPerson), Changes: changes})
	}
	return nil
}

// showVersion chooses the version that the parameter at names, the newest by default, and reads it.
func (h *historyPage) showVersion(r *request) error {
	wanted, _ := strconv.Atoi(r.parameter("at"))
	for i := range h.Versions {
		v := &h.Versions[i]
		if v.Number == 0 {
			continue
		}
		if h.At == nil || v.Number == wanted {
			h.At = v
		}
	}
	if h.At == nil {
		return nil
	}
	for _, v := range h.Versions {
		switch {
		case v.Number == 0:
		case v.Number < h.At.Number:
			h.Older = max(h.Older, v.Number)
		case v.Number > h.At.Number && (h.Newer == 0 || v.Number < h.Newer):
			h.Newer = v.Number
		}
	}

	if h.Dir = h.At.Type == object.TypeDir; h.Dir {
		return nil
	}
	old, err := r.site.Open(r.Context(), h.At.Commit.String())
	if err != nil {
		h.Gone = "The content of this version is not here: its commit has expired or is damaged."
		return nil
	}
	e, err := old.Find(r.Context(), h.At.Path)
	if err != nil {
		return err
	}
	h.Shown, err = r.site.previewFile(r.Context(), old, h.At.Path, e, viewing{Rev: h.At.Commit.String()})
	return err
}
