package cli

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange/registry"
)

// otherNames has advice for commands of git and restic that kist does not have, or has under
// another name.
var otherNames = map[string]string{
	"am":           "'patch -p1' applies a patch; 'kist cherry-pick' repeats a commit",
	"apply":        "'patch -p1' applies a patch",
	"bundle":       "'kist push' to a folder makes a copy that travels; 'kist clone' reads it",
	"check":        "'kist verify' does",
	"cherry":       "'kist rebase' names the commits that the upstream has",
	"dump":         "'kist cat REV:PATH' does",
	"for-each-ref": "'kist branch -a' and 'kist tag' list refs, with --json for programs",
	"forget":       "'kist expire' gives up the content of old commits, and 'kist gc' then frees the space",
	"fsck":         "'kist verify' does",
	"ls-files":     "'kist ls -r :' lists the files of the index, 'kist ls -r' those of a commit",
	"ls-tree":      "'kist ls' does",
	"notes":        "a tag says something about a commit",
	"prune":        "'kist gc' removes unreferenced data; 'kist expire' first drops the content of old commits",
	"repack":       "'kist gc --repack' does",
	"rev-list":     "'kist log --format=%H' does",
	"show-branch":  "'kist log --oneline --graph A B' does",
	"show-ref":     "'kist branch -a' and 'kist tag' list refs, with --json for programs",
	"snapshots":    "'kist log' does",
	"stage":        "'kist add' does",
	"unlock":       "nothing has to be unlocked: locks end with the process that holds them",
	"whatchanged":  "'kist log --name-status' does",
	"worktree":     "a second clone has a worktree of its own: kist clone DIR NEW",
}

// HintSimilar returns err with a hint that has the names similar to a mistyped word, if there are
// some.
func HintSimilar(err error, word string, names []string) error {
	near := nearest(word, names)
	if len(near) == 0 {
		return err
	}
	for i := range near {
		near[i] = QuoteArg(near[i])
	}
	return Hintf(err, "did you mean %s?", strings.Join(near, " or "))
}

// nearest returns the names that are most similar to a word.
func nearest(word string, names []string) []string {
	letters := utf8.RuneCountInString(strings.TrimLeft(word, "-"))
	if letters < 2 || len(word) > maxNearName {
		return nil
	}

	limit := 2
	if letters <= 4 { // two letters off, it is another word
		limit = 1
	}

	var near []string
	for distance := range limit + 1 {
		for _, name := range names {
			d := kist.EditDistance(strings.ToLower(word), strings.ToLower(name), limit)
			if d == distance && len(near) < maxNear && name != word && !slices.Contains(near, name) {
				near = append(near, name)
			}
		}
	}
	return near
}

// Limits of the search for names like a mistyped one.
const (
	maxNear     = 3   // names that are proposed
	maxNearName = 100 // bytes of a name that is compared
)

// nearName returns err. If it is about an unknown revision or remote, a hint has similar
// names.
func (e *Env) nearName(err error) error {
	var rev *refs.UnknownRevisionError
	var remote *kist.NoRemoteError
	if isRev := errors.As(err, &rev) && rev.Reason == ""; !isRev && !errors.As(err, &remote) {
		return err
	}
	r, openErr := e.Open()
	if openErr != nil {
		return err
	}
	defer r.Close()
	if remote != nil {
		var names []string
		for _, m := range registry.All(r) {
			names = append(names, m.Name)
		}
		return HintSimilar(err, remote.Name, names)
	}

	name := strings.TrimPrefix(rev.Rev, "^")
	if commit, path, ok := strings.Cut(name, ":"); ok && commit != "" {
		return Hintf(err, "this names a file: write '%s -- %s'", Printable(commit), Printable(path))
	}
	if i := strings.IndexAny(name, "^~@"); i > 0 {
		name = name[:i]
	}
	names := []string{"HEAD"}
	for _, below := range []string{refs.Heads, refs.Tags, refs.Remotes} {
		names = append(names, RefNames(r, below)...)
	}
	return HintSimilar(err, name, names)
}
