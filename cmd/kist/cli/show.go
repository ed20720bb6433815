package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/pathspec"
)

type showOptions struct {
	form    changeForm
	commits commitForm
	number  int
}

func newShow(env *Env) *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:   "show [OPTIONS] [REV | A..B | REV:PATH | FILE@N]... [-- PATH...]",
		Short: "show commits, tags, and files in them",
		Long: `Shows each argument, by default HEAD.

A commit is shown as in 'kist log', followed by its changes compared to its
parent. For a merge, these are the files that differ from all its parents,
compared to the first one; --stat and similar options show all that the merge
brought in. Paths that could not be stored are listed. PATHs after '--' limit
the changes to these files and folders. For an expired commit, a line shows
when, by whom and by which policy it expired; for a held one, since when, by
whom, until when and why it is held.

An annotated tag is shown with its message, followed by its commit. REV:PATH
shows the content of a file or the names in a folder, and FILE@N version N of a
file: see 'kist help history'. :PATH shows a file or folder of the index. A..B,
and a number such as -3, show commits of the history, as 'kist log' does. FORMAT
and dates are those of 'kist log'.

With --json, a commit is an object as in 'kist log --json', with changes unless
-s is given; a tag has name, id, target, tagger and message; a file or folder is
an object as in 'kist ls --json'.`,
		Example: `  kist show                      the last commit
  kist show --stat main~3        which files a commit changed
  kist show v1:README            a file as it was
  kist show HEAD -- src          what the last commit changed below src`,
		ValidArgsFunction: env.completeUntilDash(revisions, treePaths),
	}
	env.inRepository(cmd, o.run)
	passesOverLost(cmd, env)
	registerCount(cmd, &o.number, "commits")
	o.commits.register(env, cmd)
	o.form.register(cmd)
	return cmd
}

func (o *showOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	if err := o.form.settle(env, func(f *changeForm) { f.patch = true }); err != nil {
		return err
	}
	var paths pathspec.List
	var err error
	if dash := env.cmd.ArgsLenAtDash(); dash >= 0 {
		if paths, err = env.pathspecs(r, args[dash:], true); err != nil {
			return err
		}
		args = args[:dash]
	}
	if len(args) == 0 {
		args = []string{"HEAD"}
	}

	isEntry := func(arg string) bool { return namesEntry(ctx, env, r, arg) }
	revs := slices.DeleteFunc(slices.Clone(args), isEntry)
	opt := log.Options{Revs: revs}
	if err := inHistory(ctx, env, r, opt, paths); err != nil {
		return err
	}
	p, err := newCommitPrinter(ctx, env, r, &o.form, &o.commits)
	if err != nil {
		return err
	}
	p.paths, p.show, p.shown = paths, true, map[object.ID]bool{}
	if o.number >= 0 || slices.ContainsFunc(revs, isRange) {
		return o.showHistory(ctx, p, opt)
	}
	for _, arg := range args {
		if isEntry(arg) {
			err = showPath(ctx, env, r, arg)
		} else {
			err = p.showRevision(ctx, arg)
		}
		if err = env.repo.lost.pass(err); err != nil {
			return err
		}
	}
	return nil
}

// showHistory shows commits of the history, as git does for a range or a number.
func (o *showOptions) showHistory(ctx context.Context, p *commitPrinter, opt log.Options) error {
	n := 0
	for c, err := range log.Commits(ctx, p.repo, opt) {
		if err != nil || n == o.number {
			return err
		}
		shown, err := p.print(ctx, c)
		if err != nil {
			return err
		}
		if shown {
			n++
		}
	}
	return nil
}

// showRevision prints a commit, below the annotated tag that rev names, if it names one.
func (p *commitPrinter) showRevision(ctx context.Context, rev string) error {
	id, commit, err := p.repo.ReadCommit(ctx, rev)
	if errors.Is(err, refs.ErrNotFound) && rev == "HEAD" {
		if head, herr := p.repo.Refs().Head(); herr == nil && head.Unborn() {
			err = kist.ErrUnborn
		}
	}
	if err != nil {
		return p.env.meantPath(p.repo, rev, err)
	}
	if err := p.showTag(ctx, rev); err != nil {
		return err
	}

	if p.shown[id] {
		return nil // as in git
	}
	p.shown[id] = true
	logged := log.One(p.records, id, commit)
	if _, err := p.print(ctx, logged); err != nil || p.env.global.json || !p.text.Format.IsNamed() || logged.Expired != nil {
		return err
	}
	return p.printSkipped(ctx, commit)
}

// printSkipped lists the paths that a commit could not store.
func (p *commitPrinter) printSkipped(ctx context.Context, c *object.Commit) error {
	if c.SkippedCount == 0 {
		return nil
	}
	p.env.printf("\n%s\n", p.env.paint(red, "Not stored:"))
	for s, err := range object.AllSkipped(ctx, p.repo.Contents(), c) {
		if object.PassOver(p.repo.Contents(), "", object.Key{}, err) {
			return nil
		}
		if err != nil {
			return err
		}
		p.env.printf("  %s: %s\n", quotePath(s.Path), printable(s.Reason))
	}
	return nil
}

// showPath prints the content of a file, the target of a symlink, or the names in a
// folder.
func showPath(ctx context.Context, env *Env, r *kist.Repository, arg string) error {
	env.repo.lost.begin("")
	at, err := env.locate(ctx, r, arg)
	if err != nil {
		return err
	}
	env.repo.lost.begin(at.path)
	if env.global.json {
		purged, err := r.Purged(ctx, &at.entry)
		if err != nil {
			return err
		}
		v := jsonform.NewEntry(at.path, at.entry)
		v.Purged = purged != nil
		env.json(v)
		return nil
	}

	if at.entry.Type != object.TypeDir {
		return copyContent(ctx, env, at, 0, -1)
	}
	env.printf("%s\n\n", env.paint(yellow, "tree "+quotePath(arg)))
	return tree.Walk(ctx, at.objects, at.entry.Content.ID, func(path string, entry object.Entry) error {
		env.printf("%s\n", quotePath(slashed(path, entry)))
		if entry.Type == object.TypeDir {
			return tree.SkipDir
		}
		return nil
	})
}

// tagJSON is an annotated tag as show prints it with --json.
type tagJSON struct {
	Name    string          `json:"name"`
	ID      object.ID       `json:"id"`
	Target  object.ID       `json:"target"`
	Tagger  jsonform.Person `json:"tagger"`
	Message string          `json:"message"`
}

// showTag prints the annotated tag that a revision names. For other revisions, it prints
// nothing.
func (p *commitPrinter) showTag(ctx context.Context, rev string) error {
	if strings.ContainsAny(rev, "^~") {
		return nil // it names a commit, as v1^{commit} does
	}
	name, err := p.repo.Refs().Expand(ctx, rev)
	if errors.Is(err, refs.ErrNotFound) || err == nil && !strings.HasPrefix(name, refs.Tags) {
		return nil
	}
	if err != nil {
		return err
	}

	id, err := p.repo.Refs().Get(name)
	if err != nil {
		return err
	}
	tag, err := object.ReadTag(ctx, p.repo.Objects(), id)
	if errors.Is(err, object.ErrNotFound) {
		return nil // the tag names a commit directly
	}
	if err != nil {
		return err
	}

	if p.env.global.json {
		p.env.json(tagJSON{tag.Name, id, tag.Target, jsonform.NewPerson(tag.Tagger), tag.Message})
		return nil
	}
	if p.printed {
		p.env.printf("\n")
	}
	p.printed = true
	p.env.printf("%s\nTagger: %s\nDate:   %s\n", p.env.paint(yellow, "tag "+printable(tag.Name)), person(tag.Tagger), p.text.Date.Format(tag.Tagger.When(), p.text.Now))
	if message := strings.Trim(tag.Message, "\n"); message != "" {
		p.env.printf("\n%s\n", printable(message))
	}
	return nil
}
