package show

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/pathspec"
)

// CommitPrinter prints commits and their changes, for log and show.
type CommitPrinter struct {
	Env         *cli.Env
	Repo        *kist.Repository
	Records     *record.Effects // holds and expirations
	form        *ChangeForm
	Text        *Printer
	Paths       pathspec.List // limit the shown changes; none: all are shown
	FirstParent bool          // the changes of a merge are compared to its first parent
	Show        bool          // for show, which prints more of merges than log
	Graph       *graph

	Shown   map[object.ID]bool // for show: the commits that were printed
	Printed bool               // a commit was printed
	note    string             // a remark on the changes of the commit, or empty
	rows    []string           // of the graph, to be printed before the next commit
	rest    string             // stands for the graph beside text that has no row
	open    bool               // with the graph: the last line has no newline yet
}

func NewCommitPrinter(ctx context.Context, env *cli.Env, r *kist.Repository, form *ChangeForm, commits *CommitForm) (*CommitPrinter, error) {
	text, err := commits.newPrinter(ctx, env, r)
	if err != nil {
		return nil, err
	}
	p := &CommitPrinter{Env: env, Repo: r, form: form, Text: text}
	text.Signed = commits.signed
	p.Text.Notes = p.remarksOn
	p.Records, err = r.RecordViewOrEmpty()
	return p, err
}

// LoggedJSON is a commit as log and show print it with --json.
type LoggedJSON struct {
	jsonform.Commit
	Expired *ExpiredJSON      `json:"expired,omitempty" doc:"the record of the expiration, if its content has expired"`
	Held    *heldJSON         `json:"held,omitempty" doc:"the hold, if it is held"`
	Path    string            `json:"path,omitempty" doc:"with --follow, the path of the file"`
	PathRaw []byte            `json:"path_raw,omitempty"`
	Changes []jsonform.Change `json:"changes,omitempty" doc:"the changes, with --stat and similar options"`
	Since   object.ID         `json:"changes_since,omitzero" doc:"the commit of the comparison, if it is not the first parent"`

	Signature *jsonform.Signature `json:"signature,omitempty" doc:"the check of its signature, with --show-signature"`

	Lines []hunkJSON `json:"line_changes,omitempty" doc:"with -L, the changes of the lines"`
}

// filtersByChanges reports whether only commits with certain changes are printed.
func (p *CommitPrinter) filtersByChanges() bool { return p.form.Filter.Set() }

// Print prints a commit, unless the options select only changes that it does not have.
func (p *CommitPrinter) Print(ctx context.Context, c log.Logged) (shown bool, err error) {
	cmp, changes, err := p.shownChanges(ctx, c)
	cmp.lines = c.Lines
	if err != nil {
		return false, fmt.Errorf("commit %s: %w", c.ID.Short(), err)
	}
	if p.filtersByChanges() && len(changes) == 0 {
		return false, nil
	}
	if !p.form.Wanted() {
		changes = nil // they only decided
	}
	if p.Env.Global.JSON {
		return true, p.printJSON(ctx, c, cmp, changes)
	}
	p.note = cmp.note
	if p.Graph != nil {
		return true, p.printGraph(ctx, c, cmp, changes)
	}

	end, format := p.form.lineEnd(), p.Text.Format
	if p.Printed && !format.Ended() {
		p.Env.Printf("%s", end)
	}
	p.Printed = true
	_, _ = p.Env.Stdout.Write(p.Text.Text(c))
	if format.Ended() && !format.Empty() {
		p.Env.Printf("%s", end)
	}
	return true, p.printChanges(ctx, cmp, changes)
}

func (p *CommitPrinter) printJSON(ctx context.Context, c log.Logged, cmp *Comparison, changes []compare.Change) error {
	out := LoggedJSON{Commit: jsonform.NewCommit(c.ID, c.Commit), Path: c.Path, PathRaw: jsonform.Raw(c.Path)}
	if c.Expired != nil {
		out.Expired = NewExpiredJSON(*c.Expired)
	}
	if c.Held != nil {
		out.Held = newHeldJSON(*c.Held)
	}
	if p.Text.Signed {
		out.Signature = jsonform.NewSignature(p.checkSignature(c.ID))
	}
	if cmp.note != "" {
		out.Since = cmp.Old.Commit
	}
	out.Lines = newHunksJSON(c.Lines)
	for change, err := range cmp.nearForJSON(ctx, changes) {
		if err != nil {
			return err
		}
		v, err := cmp.changeJSON(ctx, change)
		if err != nil {
			return err
		}
		out.Changes = append(out.Changes, v)
	}
	p.Env.JSON(out)
	return nil
}

// remarksOn returns kist's remarks on a commit.
func (p *CommitPrinter) remarksOn(c log.Logged) (n Notes) {
	if c.Expired != nil {
		n.Marks += " " + p.Env.Paint(cli.Red, "(expired)")
	}
	if c.Held != nil {
		n.Marks += " " + p.Env.Paint(cli.Cyan, "(held)")
	}
	if count := c.SkippedCount; count > 0 {
		n.Above = append(n.Above, p.Env.Paint(cli.Red, "Partial: "+readable.Plural(count, "path was", "paths were")+" not stored"))
	}
	if c.Expired != nil {
		n.Above = append(n.Above, p.Env.Paint(cli.Red, "Expired: "+ExpiredText(*c.Expired)))
	}
	if c.Held != nil {
		n.Above = append(n.Above, "Held:   "+HeldText(p.Env, *c.Held))
	}
	if p.Text.Signed {
		n.Above = append(n.Above, "Signed: "+SignatureText(p.Env, p.checkSignature(c.ID)))
	}
	if p.note != "" {
		n.Above = append(n.Above, "Changes: "+p.note)
	}
	if c.Host != "" && (c.Host != p.Env.Hostname || p.Env.Global.Verbose) {
		n.Below = append(n.Below, "Host:   "+cli.Printable(c.Host))
	}
	return n
}

// checkSignature returns the result of the check of a commit's signature.
func (p *CommitPrinter) checkSignature(commit object.ID) sshsig.Result {
	return p.Text.Signature(object.Key{Kind: object.KindCommit, ID: commit})
}

// SignatureText returns the result of the check of a signature, in its colour.
func SignatureText(env *cli.Env, result sshsig.Result) string {
	color := cli.Yellow
	switch result.Status {
	case sshsig.Good:
		color = cli.Green
	case sshsig.Bad:
		color = cli.Red
	}
	return env.Paint(color, cli.SignatureText(result))
}

// FormatPerson returns a name and an address as git prints them.
func FormatPerson(s object.Stamp) string { return cli.Printable(s.Name + " <" + s.Email + ">") }

// printChanges prints the changes of a commit below its description.
func (p *CommitPrinter) printChanges(ctx context.Context, cmp *Comparison, changes []compare.Change) error {
	f := p.form
	if cmp.lines != nil && !f.none {
		cmp.showLines(cmp.lines)
	}
	if len(changes) == 0 {
		return nil
	}
	switch {
	case p.Text.Format.Name() == Oneline || p.Text.Format.Empty():
	case f.Patch && f.Stat:
		p.Env.Printf("---\n")
	default:
		p.Env.Printf("\n")
	}
	return cmp.Show(ctx, changes)
}

// Near yields commits. Before a commit, it brings the trees and the content that Print reads near, together with those of the next ones: see
// [object.Ahead].
func (p *CommitPrinter) Near(ctx context.Context, commits iter.Seq2[log.Logged, error]) iter.Seq2[log.Logged, error] {
	if !p.form.Wanted() && !p.filtersByChanges() {
		return commits
	}
	var paths []string
	if p.Paths.IsPlain() {
		paths = p.Paths.Paths()
	}
	commits = log.Near(ctx, p.Repo, commits, paths)
	if !p.form.readsContent(p.Env.Global.JSON) {
		return commits
	}
	return object.Ahead(ctx, p.Repo.Contents(), commits, func(c log.Logged) (list []object.Entry, err error) {
		cmp, changes, err := p.changesOf(ctx, c)
		for _, change := range changes {
			list = append(list, cmp.Contents(change)...)
		}
		return list, err
	})
}

// shownChanges returns the changes of a commit that the filters select, and that are shown.
func (p *CommitPrinter) shownChanges(ctx context.Context, c log.Logged) (*Comparison, []compare.Change, error) {
	cmp, changes, err := p.changesOf(ctx, c)
	if err == nil && len(changes) > 0 {
		changes, err = cmp.Sift(ctx, changes)
	}
	if err != nil || len(c.Parents) < 2 || p.FirstParent || !p.form.Patch || len(changes) == 0 {
		return cmp, changes, err
	}
	var views []compare.Side
	for _, parent := range c.Parents[1:] {
		view, err := log.Before(ctx, p.Repo, p.Records, parent)
		if err != nil {
			return cmp, nil, err
		}
		views = append(views, view)
	}
	changes, err = p.ownChanges(ctx, cmp, changes, views)
	return cmp, changes, err
}

// changesOf returns the changes of a commit, or none if they are not to be shown. As in
// git, log skips merges without --first-parent. An expired commit has no changes. For an
// expired parent, see [log.Before].
func (p *CommitPrinter) changesOf(ctx context.Context, c log.Logged) (*Comparison, []compare.Change, error) {
	merge := len(c.Parents) > 1
	cmp := NewComparison(p.Env, p.Repo, p.form)
	if !p.form.Wanted() && !p.filtersByChanges() || c.Lines != nil || merge && !p.FirstParent && !p.Show || c.Expired != nil {
		return cmp, nil, nil
	}
	from := compare.Side{Objects: p.Repo.Contents()}
	if len(c.Parents) > 0 {
		var err error
		if from, err = log.Before(ctx, p.Repo, p.Records, c.Parents[0]); err != nil {
			return cmp, nil, err
		}
	}

	switch before := from.Commit; {
	case len(c.Parents) == 0 || before == c.Parents[0]:
	case before.IsZero():
		cmp.note = "unknown; the earlier commits have expired"
		return cmp, nil, nil
	default:
		cmp.note = "since " + before.Short() + "; the commits between have expired"
	}
	cmp.Old, cmp.New = from, compare.Side{Tree: c.Tree, Objects: p.Repo.Contents()}
	if p.form.Reverse {
		cmp.Old, cmp.New = cmp.New, cmp.Old
	}
	if c.Path != "" {
		changes, err := cmp.Followed(ctx, c.Path)
		return cmp, changes, err
	}
	changes, err := cmp.Selected(ctx, p.Paths)
	return cmp, changes, err
}

// ownChanges returns the changes of a merge itself: files that also differ from its other parents.
func (p *CommitPrinter) ownChanges(ctx context.Context, cmp *Comparison, changes []compare.Change, others []compare.Side) ([]compare.Change, error) {
	for _, view := range others {
		to := *cmp
		if p.form.Reverse {
			to.New = view
		} else {
			to.Old = view
		}
		differ, err := to.Selected(ctx, p.Paths)
		if err != nil {
			return nil, err
		}
		changes = slices.DeleteFunc(changes, func(c compare.Change) bool {
			return !slices.ContainsFunc(differ, func(d compare.Change) bool { return d.Path == c.Path })
		})
	}
	return changes, nil
}
