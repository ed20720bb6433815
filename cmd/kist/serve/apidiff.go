package serve

import (
	"context"
	"errors"
	"io"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// maxDiffText is the size of the largest text that the API compares by lines, in bytes.
const maxDiffText = 1 << 20

// diffJSON is a page of the changes between two commits.
type diffJSON struct {
	From    *object.ID   `json:"from" doc:"the commit before; null: there is none, and everything was added"`
	To      object.ID    `json:"to" doc:"the commit"`
	Changes []changeJSON `json:"changes" doc:"the changed paths"`
	Next    *int         `json:"next" doc:"the value of skip for the next page; null: there is none"`
}

type changeJSON struct {
	jsonform.Change
	Patch string `json:"patch,omitempty" doc:"the unified difference of texts, with patch=1"`
}

func (s *Site) apiDiff(ctx context.Context, q apiRequest) (any, error) {
	to, err := s.Open(ctx, q.Get("to"))
	if err != nil {
		return nil, err
	}
	v := diffJSON{To: to.Commit, Changes: []changeJSON{}}
	from, err := s.commitBefore(ctx, to, q.Get("from"))
	if err != nil {
		return nil, err
	}
	if !from.Commit.IsZero() {
		v.From = &from.Commit
	}
	limit, err := q.numberParameter("limit", 1000, 1, 10_000)
	if err != nil {
		return nil, err
	}
	skip, err := q.numberParameter("skip", 0, 0, 1<<30)
	if err != nil {
		return nil, err
	}
	o := tree.DiffOptions{Recursive: true}
	if q.Has("path") {
		at, err := tree.CleanPath(q.Get("path"))
		if err != nil {
			return nil, err
		}
		o.Paths = []string{at}
	}

	n := 0
	for change, err := range tree.Diff(ctx, to.Objects, from.Tree, to.Tree, o) {
		if err != nil {
			return nil, err
		}
		change, visible, err := VisibleChange(ctx, from, to, change)
		if err != nil {
			return nil, err
		}
		if !visible {
			continue
		}
		if n++; n <= skip {
			continue
		}
		if len(v.Changes) == limit {
			v.Next = new(skip + limit)
			break
		}
		out := changeJSON{Change: jsonform.Change{AtPath: jsonform.NewPath(change.Path), Status: string(change.Letter()), Old: jsonform.NewSide(change.Old), New: jsonform.NewSide(change.New)}}
		if q.Get("patch") == "1" {
			if err := out.addLineDiff(ctx, to.Objects, change); err != nil {
				return nil, err
			}
		}
		v.Changes = append(v.Changes, out)
	}
	return v, nil
}

// commitBefore returns the commit of a revision, or if that is "" the first parent of to. Without a
// parent, the result has no tree.
func (s *Site) commitBefore(ctx context.Context, to *VisibleCommit, rev string) (*VisibleCommit, error) {
	switch {
	case rev != "":
		return s.Open(ctx, rev)
	case len(to.Info.Parents) > 0:
		return s.Open(ctx, to.Info.Parents[0].String())
	}
	none := *to
	none.Tree, none.Commit = object.ID{}, object.ID{}
	return &none, nil
}

// addLineDiff adds the comparison of the contents by lines.
func (v *changeJSON) addLineDiff(ctx context.Context, r object.Reader, c tree.Change) error {
	var text [2][]byte
	names := [2]string{"/dev/null", "/dev/null"}
	for i, e := range []*object.Entry{c.Old, c.New} {
		if e == nil {
			continue
		}
		names[i] = []string{"a/", "b/"}[i] + readable.Escape(c.Path)
		if e.Type != object.TypeFile || e.Size > maxDiffText {
			v.Binary = e.Type == object.TypeFile
			return nil
		}
		data, err := io.ReadAll(object.NewContentReader(ctx, r, *e))
		if errors.Is(err, object.ErrLost) || errors.Is(err, object.ErrPurged) {
			v.Binary = true
			return nil
		}
		if err != nil {
			return err
		}
		if !tree.IsText(data) {
			v.Binary = true
			return nil
		}
		text[i] = data
	}
	added, deleted := tree.CountLines(text[0], text[1], tree.TextOptions{})
	v.Added, v.Deleted = &added, &deleted
	v.Patch = string(tree.Unified(names[0], names[1], text[0], text[1], tree.TextOptions{}))
	return nil
}
