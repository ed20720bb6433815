package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/tree/look/blame"
	"github.com/kist-vcs/kist/tree/look/log"
)

// checkLines returns an error if -L is used with an option or a path that it excludes.
func (o *logOptions) checkLines(env *Env, paths pathspecs) error {
	f := o.form
	f.patch = false
	switch {
	case f.wanted() || f.reverse || f.filter.set() || f.lines != (lineForm{words: f.lines.words}) || env.cmd.Flags().Changed("word-diff"):
		return usagef("-L shows its lines as a patch; of the other forms, it only takes -s")
	case o.follow || o.moves:
		return usagef("-L cannot be combined with --follow and --walk-reflogs")
	case len(paths) > 0:
		return usagef("-L names its file, and takes no other paths")
	}
	return nil
}

// fileLines reads the values of -L, in the commit that revs name.
func (o *logOptions) fileLines(ctx context.Context, env *Env, r *kist.Repository, revs []string) (list []log.FileLines, err error) {
	commit, err := log.OneStart(ctx, r, revs)
	if err != nil {
		return nil, err
	}
	specs := map[string][]string{}
	var paths []string
	for _, value := range o.lines {
		spec, file, ok := blame.CutPath(value)
		if !ok {
			return nil, usagef("-L %s: neither START,END:FILE nor :RE:FILE", quoteArg(value))
		}
		path, err := env.repoPath(r, file)
		if err != nil {
			return nil, err
		}
		if specs[path] == nil {
			paths = append(paths, path)
		}
		specs[path] = append(specs[path], spec)
	}

	slices.Sort(paths)
	for _, path := range paths {
		f, err := blame.Committed(ctx, r, commit, path)
		if err != nil {
			return nil, err
		}
		text, err := f.Text(ctx, r)
		if errors.Is(err, blame.ErrTooLarge) {
			return nil, failf(exitFailed, "too-large", "%s is %w", quoteArg(path), err)
		}
		if err != nil {
			return nil, err
		}
		ranges, err := parseLines(specs[path], text)
		if err != nil {
			return nil, err
		}
		list = append(list, log.FileLines{Path: path, Ranges: ranges})
	}
	return list, nil
}

// hunkJSON is a change of lines as log -L prints it with --json.
type hunkJSON struct {
	jsonform.AtPath
	From string `json:"renamed_from,omitempty"`
	Text string `json:"patch"` // hunks in the unified format
}

func newHunksJSON(changes []log.LineChange) (list []hunkJSON) {
	for _, c := range changes {
		h := hunkJSON{AtPath: jsonform.NewPath(c.Path), Text: string(blame.Hunks(c.Old, c.New, c.Ranges, c.Touched))}
		if c.From != c.Path {
			h.From = c.From
		}
		list = append(list, h)
	}
	return list
}

// showLines prints the changes of lines, as git does.
func (c *comparison) showLines(changes []log.LineChange) {
	c.env.printf("\n")
	for _, change := range changes {
		from, old := "a/"+change.From, "a/"+change.From
		if change.From == "" {
			from, old = "a/"+change.Path, noFile
		}
		head := fmt.Sprintf("diff --git %s %s\n", quotePath(from), quotePath("b/"+change.Path))
		text := blame.Hunks(change.Old, change.New, change.Ranges, change.Touched)
		var all strings.Builder
		fmt.Fprintf(&all, "%s--- %s\n+++ %s\n%s", head, quotePath(old), quotePath("b/"+change.Path), text)
		c.printLines([]byte(all.String()), 3)
	}
}
