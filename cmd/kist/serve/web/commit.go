package web

import (
	"cmp"
	"errors"
	"net/url"

	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/log"
)

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

// showCommit shows a commit and its changes since its first parent.
func (s *site) showCommit(r *request) (page, error) {
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
	case errors.Is(err, object.ErrExpired):
		out.Gone = expiredText
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
		old := &serve.VisibleCommit{Side: before, Rules: new.Rules} // an empty one
		if !before.Commit.IsZero() {
			if old, err = s.Open(ctx, before.Commit.String()); err != nil {
				return page{}, err
			}
		}
		c := comparison{old: old, new: new, skip: r.numberParameter("skip", maxSkip), page: "/commit/" + r.rev}
		if out.Diffs, err = s.compareCommits(ctx, c); err != nil {
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

// showDiff shows the differences between two commits, in all files or at one path.
func (s *site) showDiff(r *request) (page, error) {
	out := diffPage{From: r.parameter("from"), To: r.parameter("to"), Path: r.parameter("path")}
	if at := r.parameter("at"); at != "" { // escaped, since fields of forms cannot have all bytes
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
	c := comparison{old: old, new: new, path: out.Path, skip: r.numberParameter("skip", maxSkip), page: "/diff", query: url.Values{"from": {out.From}, "to": {out.To}}}
	if out.Path != "" {
		if err := tree.CheckPath(out.Path); err != nil {
			return page{}, tree.ErrNotExist
		}
		if err := errors.Join(old.Rules.MayRead(r.Context(), out.Path), new.Rules.MayRead(r.Context(), out.Path)); err != nil {
			return page{}, err
		}
		c.query.Set("path", out.Path)
		out.Parts = partsOf(out.Path)
	}
	if out.Diffs, err = s.compareCommits(r.Context(), c); err != nil {
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
