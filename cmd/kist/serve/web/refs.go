package web

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// refName is a branch, tag or branch of a remote.
type refName struct {
	Kind string // "branch", "tag" or "remote"
	Name string // short
	Rev  string // the name that leads to it
	ID   object.ID
	Head bool
	Time time.Time // of its commit
}

// The most refs that a page shows.
const (
	maxRefs     = 500
	onSide      = 10   // in the list beside other things
	maxAllRefs  = 5000 // on the page with all of them
	maxRefTimes = 50_000
)

// refKinds are the folders of refs, with a word for a ref in each.
var refKinds = []struct{ below, name string }{{refs.Heads, "branch"}, {refs.Tags, "tag"}, {refs.Remotes, "remote"}}

// allNames returns the branches, the tags and the branches of remotes: of each kind the one of HEAD
// first, then the most recently changed. It also returns the revisions from which all history starts.
func (s *site) allNames(ctx context.Context) (names []refName, starts []string, err error) {
	list, err := s.Repo.Refs().List("refs/")
	if err != nil && len(list) == 0 {
		return nil, nil, err
	}
	head, err := s.Repo.Refs().Head()
	if err != nil {
		return nil, nil, err
	}
	if head.Branch == "" && !head.ID.IsZero() {
		starts = append(starts, "HEAD")
	}
	for _, kind := range refKinds {
		first := len(names)
		for _, ref := range list {
			short, ok := strings.CutPrefix(ref.Name, kind.below)
			if !ok || ref.Target != "" {
				continue
			}
			at, err := s.times.commitTime(ctx, s, ref.ID)
			if err != nil {
				return nil, nil, err
			}
			names = append(names, refName{Kind: kind.name, Name: short, Rev: ref.Name, ID: ref.ID, Head: kind.name == "branch" && short == head.Branch, Time: at})
		}
		slices.SortStableFunc(names[first:], recentFirst)
	}
	for _, n := range names[:min(len(names), maxRefs)] {
		starts = append(starts, n.Rev)
	}
	return names, starts, nil
}

// recentFirst compares names: that of HEAD is first, then the most recently changed ones.
func recentFirst(a, b refName) int {
	switch {
	case a.Head:
		return -1
	case b.Head:
		return 1
	}
	return cmp.Or(b.Time.Compare(a.Time), naturalOrder(a.Name, b.Name))
}

// refNames returns the names that a visitor can choose from.
func (s *site) refNames(ctx context.Context) ([]refName, error) {
	names, _, err := s.allNames(ctx)
	return names[:min(len(names), maxRefs)], err
}

// refTimes keeps the times of the commits that names lead to. It is safe for concurrent use.
type refTimes struct {
	mu    sync.Mutex
	known map[object.ID]time.Time
}

// commitTime returns the time of the commit of a ref, or zero if the commit cannot be read. The error
// means that ctx has ended.
func (t *refTimes) commitTime(ctx context.Context, s *site, id object.ID) (at time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.known[id]; ok {
		return at, nil
	}
	commit, err := refs.Peel(ctx, s.Repo.Objects(), id)
	if err == nil {
		var c *object.Commit
		if c, err = object.ReadCommit(ctx, s.Repo.Objects(), commit); err == nil {
			at = c.Committer.When()
		}
	}
	if err != nil {
		return time.Time{}, ctx.Err() // damage may be repaired
	}
	if t.known == nil || len(t.known) >= maxRefTimes {
		t.known = map[object.ID]time.Time{}
	}
	t.known[id] = at
	return at, nil
}

// naturalOrder compares names, with numbers in them by their value: v1.9 is before v1.10.
func naturalOrder(a, b string) int {
	rawA, rawB := a, b
	for a != "" && b != "" {
		if !isDigit(a[0]) || !isDigit(b[0]) {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		na, restA := leadingNumber(a)
		nb, restB := leadingNumber(b)
		if order := cmp.Or(cmp.Compare(len(na), len(nb)), cmp.Compare(na, nb)); order != 0 {
			return order
		}
		a, b = restA, restB
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(rawA, rawB))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// leadingNumber returns the number at the start of a text, without zeros before it, and the rest.
func leadingNumber(text string) (digits, rest string) {
	end := 0
	for end < len(text) && isDigit(text[end]) {
		end++
	}
	return strings.TrimLeft(text[:end], "0"), text[end:]
}

// nameGroup is the names of one kind.
type nameGroup struct {
	Kind, Title string
	Names       []refName
	More        int // that are not in Names
}

// grouped returns the names by kind, at most a number of each.
func grouped(names []refName, most int) (groups []nameGroup) {
	for _, kind := range []struct{ name, title string }{{"branch", "Branches"}, {"tag", "Tags"}, {"remote", "Branches of remotes"}} {
		g := nameGroup{Kind: kind.name, Title: kind.title}
		for _, n := range names {
			switch {
			case n.Kind != kind.name:
			case len(g.Names) == most:
				g.More++
			default:
				g.Names = append(g.Names, n)
			}
		}
		if len(g.Names) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// refsPage is the content of the page with all names.
type refsPage struct {
	Groups []nameGroup
	Sort   string // "name", or "" for the most recently changed first
}

// showRefs shows all branches and tags.
func (s *site) showRefs(r *request) (page, error) {
	names, _, err := s.allNames(r.Context())
	if err != nil {
		return page{}, err
	}
	out := refsPage{}
	if r.parameter("as") == "name" {
		out.Sort = "name"
		slices.SortStableFunc(names, func(a, b refName) int { return naturalOrder(a.Name, b.Name) })
	}
	out.Groups = grouped(names, maxAllRefs)
	return page{name: "refs", Title: "Branches and tags", Nav: "history", Data: out}, nil
}
