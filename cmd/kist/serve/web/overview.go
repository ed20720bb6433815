package web

import (
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/log"
)

// onOverview is the number of commits on the first page.
const onOverview = 8

// overviewPage is the content of the first page.
type overviewPage struct {
	Head    *object.Commit // nil: there is none yet
	All     bool           // the visitor may read everything in it
	Branch  string
	Commits []commitLine
	Names   []nameGroup
	Remotes []remoteLine
	Readme  *preview
	Folder  treePage
	Count   int  // commits of HEAD
	Many    bool // there are more commits

	AllNames int // number of branches and tags
}

// maxCounted is the most commits that the first page counts.
const maxCounted = 10_000

// showOverview shows the repository: its names, its last commits and its files.
func (s *site) showOverview(r *request) (page, error) {
	ctx := r.Context()
	p := page{name: "overview", Nav: "overview"}
	var out overviewPage
	head, err := s.Repo.Refs().Head()
	if err != nil {
		return page{}, err
	}
	out.Branch = head.Branch
	names, _, err := s.allNames(ctx)
	if err != nil {
		return page{}, err
	}
	out.Names, out.AllNames = grouped(names, onSide), len(names)
	if out.Remotes, err = s.listRemotes(); err != nil {
		return page{}, err
	}

	if head.ID.IsZero() {
		p.Data = out
		return p, nil
	}
	v, err := r.openCommit()
	if err != nil {
		return page{}, err
	}
	out.Head = v.Info
	if out.All, err = v.Rules.ReadsAll(ctx, ""); err != nil {
		return page{}, err
	}
	decorations := log.Decorations(ctx, s.Repo, false)
	for c, err := range log.Commits(ctx, s.Repo, log.Options{}) {
		if err != nil {
			return page{}, err
		}
		if out.Count++; out.Count <= onOverview {
			out.Commits = append(out.Commits, newCommitLine(c, decorations[c.ID]))
		}
		if out.Many = out.Count == maxCounted; out.Many {
			break
		}
	}
	if err := s.fillFolder(r, v, &out.Folder); err != nil {
		return page{}, err
	}
	out.Readme, out.Folder.Readme = out.Folder.Readme, nil
	p.Data = out
	return p, nil
}
