package serve

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/grep"
)

// Limits of a search.
const (
	maxQuery    = 1000 // bytes of the text to search for
	maxShown    = 400  // bytes of a line in the answer
	searchTasks = 2    // files searched at once
)

// searchJSON has the results of a search: files by name, or lines of files.
type searchJSON struct {
	Files    []jsonform.Entry `json:"files,omitempty" doc:"the files, for in=names"`
	Lines    []lineJSON       `json:"lines,omitempty" doc:"the lines, for in=text"`
	Complete bool             `json:"complete" doc:"false if there is more"`
}

type lineJSON struct {
	jsonform.AtPath
	Line int    `json:"line" doc:"the number of the line"`
	Text string `json:"text" doc:"at most its first 400 bytes"`
}

// errEnough ends a search that found as much as was asked for.
var errEnough = errors.New("enough was found")

func (s *Site) apiSearch(ctx context.Context, q apiRequest) (any, error) {
	text := q.Get("q")
	if text == "" || len(text) > maxQuery {
		return nil, badRequest("q must be a text of at most 1000 bytes")
	}
	limit, err := q.numberParameter("limit", 100, 1, 1000)
	if err != nil {
		return nil, err
	}
	c, err := s.Open(ctx, q.Get("rev"))
	if err != nil {
		return nil, err
	}
	at, err := tree.CleanPath(q.Get("path"))
	if err != nil {
		return nil, err
	}
	e, err := c.Find(ctx, at)
	if err != nil {
		return nil, err
	}
	if !tree.IsDir(&e) {
		return nil, badRequest("path must be a folder")
	}

	v := searchJSON{Complete: true}
	switch q.Get("in") {
	case "", "names":
		v.Files, err = c.searchNames(ctx, at, e, text, limit)
	case "text":
		v.Lines, err = c.searchText(ctx, at, e, text, limit)
	default:
		err = badRequest("in must be names or text")
	}
	if errors.Is(err, errEnough) {
		v.Complete, err = false, nil
	}
	return v, err
}

// searchNames returns the readable files and folders below a folder whose names contain a
// text. Capital and small letters are equal. With more than limit results, it also returns
// errEnough.
func (c *VisibleCommit) searchNames(ctx context.Context, at string, dir object.Entry, text string, limit int) (found []jsonform.Entry, err error) {
	text = strings.ToLower(text)
	err = tree.Walk(ctx, c.Objects, dir.Content.ID, func(path string, e object.Entry) error {
		if !strings.Contains(strings.ToLower(e.Name), text) {
			return nil
		}
		full := tree.Join(at, path)
		e, err := c.Rules.Shown(ctx, full, e)
		if errors.Is(err, access.ErrDenied) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(found) == limit {
			return errEnough
		}
		found = append(found, jsonform.NewEntry(full, e))
		return nil
	})
	return found, err
}

// searchText is searchNames for the lines of readable files.
func (c *VisibleCommit) searchText(ctx context.Context, at string, dir object.Entry, text string, limit int) (found []lineJSON, err error) {
	pattern, err := grep.Compile([]string{text}, grep.PatternOptions{Fixed: true, IgnoreCase: true})
	if err != nil {
		return nil, badRequest("this text cannot be searched for")
	}
	var unread error
	selected := func(path string) bool {
		ok, err := c.Readable(ctx, tree.Join(at, path))
		if err != nil {
			unread = err
		}
		return ok
	}
	files := grep.InView(ctx, compare.Side{Tree: dir.Content.ID, Commit: c.Commit, Objects: c.Objects}, selected)
	err = grep.Search(ctx, files, grep.Options{Pattern: pattern}, searchTasks, func(b grep.Block) error {
		for _, line := range b.Lines {
			if len(found) == limit {
				return errEnough
			}
			shown := line.Text
			if len(shown) > maxShown {
				shown = shown[:maxShown]
				for len(shown) > 0 && !utf8.Valid(shown) && len(shown) > maxShown-utf8.UTFMax {
					shown = shown[:len(shown)-1]
				}
			}
			found = append(found, lineJSON{jsonform.NewPath(tree.Join(at, b.Path)), line.Number, strings.ToValidUTF8(string(shown), "\ufffd")})
		}
		return nil
	})
	return found, errors.Join(err, unread)
}
