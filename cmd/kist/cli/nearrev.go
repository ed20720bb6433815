package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/refs"
)

// Limits of the search for names like a mistyped one.
const (
	maxNear     = 3   // names that are proposed
	maxNearName = 100 // bytes of a name that is compared
)

// nearRevision returns err with names that are like the one that names no
// commit, if that is what err is about.
func (e *Env) nearRevision(err error) error {
	var unknown *refs.UnknownRevisionError
	if !errors.As(err, &unknown) || unknown.Reason != "" {
		return err
	}
	r, openErr := e.open()
	if openErr != nil {
		return err
	}
	defer r.Close()
	near := nearNames(r, unknown.Rev)
	if len(near) == 0 {
		return err
	}
	for i := range near {
		near[i] = quoteArg(near[i])
	}
	return hintf(err, "did you mean %s?", strings.Join(near, " or "))
}

// nearNames returns the names of refs that are nearest to the name that a
// revision begins with.
func nearNames(r *kist.Repository, rev string) []string {
	rev = strings.TrimPrefix(rev, "^")
	if i := strings.IndexAny(rev, "^~@:"); i > 0 {
		rev = rev[:i]
	}
	letters := utf8.RuneCountInString(rev)
	limit := 2
	if letters <= 3 { // two letters off, it is another word
		limit = 1
	}
	if letters < 2 || len(rev) > maxNearName {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	names := []string{"HEAD"}
	for _, below := range []string{refs.Heads, refs.Tags, refs.Remotes} {
		names = append(names, refNames(r, below)...)
	}
	for _, name := range names {
		if d := editDistance(strings.ToLower(rev), strings.ToLower(name), limit); d <= limit {
			found = append(found, candidate{name, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var near []string
	for _, c := range found {
		if len(near) < maxNear && c.name != rev && !slices.Contains(near, c.name) {
			near = append(near, c.name)
		}
	}
	return near
}

// editDistance returns how many letters have to be added, removed, replaced or
// swapped with the next one to make b of a. Beyond limit it is limit+1.
func editDistance(a, b string, limit int) int {
	if len(b) > maxNearName {
		return limit + 1
	}
	s, t := []rune(a), []rune(b)
	if max(len(s)-len(t), len(t)-len(s)) > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row[0] = i + 1
		for j := range t {
			change := last[j]
			if s[i] != t[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(t)], limit+1)
}
