package work

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// carriedJSON is a local change that a checkout carried over to the new commit.
type carriedJSON struct {
	jsonform.AtPath
	Status string `json:"status" doc:"the letter that git has for the difference from the commit"`
}

// carriedChanges returns the staged and the other local changes of tracked files, compared
// with HEAD, as git's checkout lists them. It returns none if nobody sees the list, and after
// the creation of a branch at HEAD.
func (o checkoutOptions) carriedChanges(ctx context.Context, env *cli.Env, r *kist.Repository, rev string) []carriedJSON {
	stays := o.create != "" && rev == "" // only the branch is new
	if o.force || stays || env.Global.Quiet && !env.Global.JSON {
		return nil
	}
	s, err := stage.ReadStatus(ctx, r, stage.StatusOptions{NoUntracked: true})
	if err != nil {
		env.Warn("cannot list the local changes: %v", err) // the checkout itself is done
		return nil
	}

	var list []carriedJSON
	add := func(path string, letter byte) {
		list = append(list, carriedJSON{jsonform.NewPath(path), string(letter)})
	}
	for _, l := range statusLines(s) {
		if l.from != "" {
			add(l.from, 'D')
		}
		if letter := l.fromHead(); letter != 0 {
			add(l.path, letter)
		}
	}
	return list
}

// fromHead returns the letter for the change from HEAD to the worktree; 0: there is none.
func (l *statusLine) fromHead() byte {
	added := l.index == 'A' || l.index == 'R'
	switch {
	case l.isOneLetter():
		return 'U'
	case l.worktree == 'X' || added && l.worktree == 'D':
		return 0
	case added:
		return 'A'
	case l.index == 'D' || l.worktree == ' ':
		return l.index
	}
	return l.worktree
}

// tellCarried prints the carried changes as git does.
func tellCarried(env *cli.Env, list []carriedJSON) {
	for _, c := range list {
		env.PrintOutcome("%s\t%s\n", c.Status, cli.QuotePath(c.Path))
	}
}
