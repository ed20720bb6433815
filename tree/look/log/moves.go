package log

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
)

// Move is a move of a ref.
type Move struct {
	Ref    string // its full name
	Number int    // as in HEAD@{1}
	refs.LogEntry
}

// ErrNoMoves is the error for a revision that names no ref, with [Options].Reflog.
var ErrNoMoves = errors.New("not the name of a branch, or HEAD")

// yieldMoves yields the commits that the refs in Revs moved to, the last move first. A
// damaged log hides no move; its error comes last.
func (l *commitSelector) yieldMoves(ctx context.Context, yield func(Logged, error) bool) {
	moves, damage, err := l.refMoves(ctx)
	if err != nil {
		yield(Logged{}, err)
		return
	}
	simplify := l.parentSelector(ctx, nil)
	for _, move := range moves {
		commit, err := object.ReadCommit(ctx, l.r.Objects(), move.New)
		if object.IsLost(l.r.Objects(), object.Key{Kind: object.KindCommit, ID: move.New}) {
			continue
		}
		c := history.Commit{ID: move.New, Commit: commit}
		if err == nil && simplify != nil {
			_, err = simplify(c, func(object.ID) bool { return false })
		}
		if err != nil {
			yield(Logged{}, err)
			return
		}
		if !l.selectsAt(c, move.Time) {
			continue
		}
		logged := l.loggedCommit(c.ID, commit, nil)
		logged.Reflog = &move
		if !yield(logged, nil) {
			return
		}
	}
	if damage != nil {
		yield(Logged{}, damage)
	}
}

// refMoves returns the moves of all refs in Revs that lead to a commit, the newest first.
// Without Revs, HEAD has the moves.
func (l *commitSelector) refMoves(ctx context.Context) (all []Move, damage, err error) {
	revs := l.o.Revs
	if len(revs) == 0 {
		revs = []string{"HEAD"}
	}
	for _, rev := range revs {
		name, at, _ := strings.Cut(rev, "@{")
		first, err := strconv.Atoi(strings.TrimSuffix(at, "}"))
		if at != "" && err != nil || strings.HasPrefix(rev, "^") || strings.Contains(rev, "..") {
			return nil, nil, fmt.Errorf("revision %q: %w", rev, ErrNoMoves)
		}
		if name != "HEAD" {
			if name, err = l.r.Refs().Expand(ctx, name); err != nil {
				return nil, nil, err
			}
		}
		entries, err := l.r.Refs().Log(name)
		damage = errors.Join(damage, err)
		for i, entry := range entries {
			if i >= first && !entry.New.IsZero() {
				all = append(all, Move{name, i, entry})
			}
		}
	}
	if len(revs) > 1 {
		slices.SortStableFunc(all, func(a, b Move) int { return b.Time.Compare(a.Time) })
	}
	return all, damage, nil
}
