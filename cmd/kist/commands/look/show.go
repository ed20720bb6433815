package look

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/pathspec"
)

type showOptions struct {
	form    show.ChangeForm
	commits show.CommitForm
	number  int
}

func NewShow(env *cli.Env) *cobra.Command {
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
and dates are those of 'kist log'.`,
		Example: `  kist show                      the last commit
  kist show --stat main~3        which files a commit changed
  kist show v1:README            a file as it was
  kist show HEAD -- src          what the last commit changed below src`,
		ValidArgsFunction: env.CompleteUntilDash(cli.Revisions, input.TreePaths),
	}
	env.Prints(cmd, "for each commit", show.LoggedJSON{})
	env.Prints(cmd, "for each tag", tagJSON{})
	env.Prints(cmd, "for each file or folder", jsonform.Entry{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	cli.RegisterCount(cmd, &o.number, "commits")
	o.commits.Register(env, cmd)
	o.form.Register(cmd)
	return cmd
}

func (o *showOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if err := o.form.Settle(env, func(f *show.ChangeForm) { f.Patch = true }); err != nil {
		return err
	}
	var paths pathspec.List
	var err error
	if dash := env.Cmd.ArgsLenAtDash(); dash >= 0 {
		if paths, err = input.Pathspecs(env, r, args[dash:], true); err != nil {
			return err
		}
		args = args[:dash]
	}
	if len(args) == 0 {
		args = []string{"HEAD"}
	}

	isEntry := func(arg string) bool { return input.NamesEntry(ctx, env, r, arg) }
	revs := slices.DeleteFunc(slices.Clone(args), isEntry)
	opt := log.Options{Revs: revs}
	if err := inHistory(ctx, env, r, opt, paths); err != nil {
		return err
	}
	p, err := show.NewCommitPrinter(ctx, env, r, &o.form, &o.commits)
	if err != nil {
		return err
	}
	p.Paths, p.Show, p.Shown = paths, true, map[object.ID]bool{}
	if o.number >= 0 || slices.ContainsFunc(revs, input.IsRange) {
		return o.showHistory(ctx, p, opt)
	}
	for _, arg := range args {
		if isEntry(arg) {
			err = showPath(ctx, env, r, arg)
		} else {
			err = showRevision(ctx, p, arg)
		}
		if err = env.Repo.Lost.PassOver(err); err != nil {
			return err
		}
	}
	return nil
}

// showHistory shows commits of the history, as git does for a range or a number.
func (o *showOptions) showHistory(ctx context.Context, p *show.CommitPrinter, opt log.Options) error {
	n := 0
	for c, err := range log.Commits(ctx, p.Repo, opt) {
		if err != nil || n == o.number {
			return err
		}
		shown, err := p.Print(ctx, c)
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
func showRevision(ctx context.Context, p *show.CommitPrinter, rev string) error {
	id, commit, err := p.Repo.ReadCommit(ctx, rev)
	if errors.Is(err, refs.ErrNotFound) && rev == "HEAD" {
		if head, herr := p.Repo.Refs().Head(); herr == nil && head.Unborn() {
			err = kist.ErrUnborn
		}
	}
	if err != nil {
		return input.MeantPath(p.Env, p.Repo, rev, err)
	}
	if err := showTag(ctx, p, rev); err != nil {
		return err
	}

	if p.Shown[id] {
		return nil // as in git
	}
	p.Shown[id] = true
	logged := log.One(p.Records, id, commit)
	if _, err := p.Print(ctx, logged); err != nil || p.Env.Global.JSON || !p.Text.Format.IsNamed() || logged.Expired != nil {
		return err
	}
	return printSkipped(ctx, p, commit)
}

// printSkipped lists the paths that a commit could not store.
func printSkipped(ctx context.Context, p *show.CommitPrinter, c *object.Commit) error {
	if c.SkippedCount == 0 {
		return nil
	}
	p.Env.Printf("\n%s\n", p.Env.Paint(cli.Red, "Not stored:"))
	for s, err := range object.AllSkipped(ctx, p.Repo.Contents(), c) {
		if object.PassOver(p.Repo.Contents(), "", object.Key{}, err) {
			return nil
		}
		if err != nil {
			return err
		}
		p.Env.Printf("  %s: %s\n", cli.QuotePath(s.Path), cli.Printable(s.Reason))
	}
	return nil
}

// showPath prints the content of a file, the target of a symlink, or the names in a
// folder.
func showPath(ctx context.Context, env *cli.Env, r *kist.Repository, arg string) error {
	env.Repo.Lost.BeginAt("")
	at, err := input.Locate(ctx, env, r, arg)
	if err != nil {
		return err
	}
	env.Repo.Lost.BeginAt(at.Path)
	if env.Global.JSON {
		purged, err := r.Purged(ctx, &at.Entry)
		if err != nil {
			return err
		}
		v := jsonform.NewEntry(at.Path, at.Entry)
		v.Purged = purged != nil
		env.JSON(v)
		return nil
	}

	if at.Entry.Type != object.TypeDir {
		return copyContent(ctx, env, at, 0, -1)
	}
	env.Printf("%s\n\n", env.Paint(cli.Yellow, "tree "+cli.QuotePath(arg)))
	return tree.Walk(ctx, at.Objects, at.Entry.Content.ID, func(path string, entry object.Entry) error {
		env.Printf("%s\n", cli.QuotePath(slashed(path, entry)))
		if entry.Type == object.TypeDir {
			return tree.SkipDir
		}
		return nil
	})
}

// tagJSON is an annotated tag as show prints it with --json.
type tagJSON struct {
	Name    string          `json:"name" doc:"the tag"`
	ID      object.ID       `json:"id" doc:"its ID"`
	Target  object.ID       `json:"target" doc:"the commit"`
	Tagger  jsonform.Person `json:"tagger" doc:"who made it"`
	Message string          `json:"message" doc:"its message"`

	Signature *jsonform.Signature `json:"signature,omitempty" doc:"the check of its signature, with --show-signature"`
}

// showTag prints the annotated tag that a revision names. For other revisions, it prints
// nothing.
func showTag(ctx context.Context, p *show.CommitPrinter, rev string) error {
	if strings.ContainsAny(rev, "^~") {
		return nil // it names a commit, as v1^{commit} does
	}
	name, err := p.Repo.Refs().Expand(ctx, rev)
	if errors.Is(err, refs.ErrNotFound) || err == nil && !strings.HasPrefix(name, refs.Tags) {
		return nil
	}
	if err != nil {
		return err
	}

	id, err := p.Repo.Refs().Get(name)
	if err != nil {
		return err
	}
	tag, err := object.ReadTag(ctx, p.Repo.Objects(), id)
	if errors.Is(err, object.ErrNotFound) {
		return nil // the tag names a commit directly
	}
	if err != nil {
		return err
	}

	out := tagJSON{Name: tag.Name, ID: id, Target: tag.Target, Tagger: jsonform.NewPerson(tag.Tagger), Message: tag.Message}
	signed := ""
	if p.Text.Signed {
		result := p.Text.Signature(object.Key{Kind: object.KindTag, ID: id})
		out.Signature = jsonform.NewSignature(result)
		signed = "\nSigned: " + show.SignatureText(p.Env, result)
	}
	if p.Env.Global.JSON {
		p.Env.JSON(out)
		return nil
	}
	if p.Printed {
		p.Env.Printf("\n")
	}
	p.Printed = true
	p.Env.Printf("%s%s\nTagger: %s\nDate:   %s\n", p.Env.Paint(cli.Yellow, "tag "+cli.Printable(tag.Name)), signed, show.FormatPerson(tag.Tagger), p.Text.Date.Format(tag.Tagger.When(), p.Text.Now))
	if message := strings.Trim(tag.Message, "\n"); message != "" {
		p.Env.Printf("\n%s\n", cli.Printable(message))
	}
	return nil
}
