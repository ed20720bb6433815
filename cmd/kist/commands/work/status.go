package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/work/bisect"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

type statusOptions struct {
	short     bool
	porcelain bool
	nul       bool
	branch    bool
	untracked string
	ignored   bool
}

func NewStatus(env *cli.Env) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status [OPTIONS] [PATH...]",
		Short: "show staged, changed and untracked files",
		Long: `Compares HEAD, the index, and the worktree. A different time of a file alone is
no change.

With --short, a line for each path: two letters, a space, the path. The first
letter is the change from HEAD to the index, the second the change from the
index to the worktree:

  M modified   T of another type   A added   D deleted   R renamed (OLD -> NEW)
  ?? untracked   !! ignored   X cannot be read
  DD AU UD UA DU AA UU conflicts of a merge: our and their change

A file that is absent because its content was purged or lost is unchanged. These
files are listed in the long form and with --json.

--porcelain is --short for programs: paths are relative to the root of the
worktree, and there are no colours. With -z, paths end with NUL and are not
quoted, and the new path of a rename comes first.`,
		Example: `  kist status
  kist status -s src
  kist status --porcelain -uall     for programs, and every untracked file`,
	}
	env.Prints(cmd, "first", statusHeadJSON{})
	env.Prints(cmd, "for each path", statusLineJSON{})
	env.InRepository(cmd, o.run, cli.ExitPartial)
	flags := cmd.Flags()
	flags.BoolVarP(&o.short, "short", "s", false, "one line for each path")
	flags.BoolFunc("porcelain", "like --short, for programs; =v1 is the same", o.setPorcelain)
	flags.BoolVarP(&o.nul, "null", "z", false, "like --porcelain; paths end with NUL, and are not quoted")
	flags.BoolVarP(&o.branch, "branch", "b", false, "show the branch, too (with --short or --porcelain)")
	flags.VarP(cli.NewChoice(&o.untracked, "normal", "all", "no"), "untracked-files", "u", "how to show untracked files: `normal|all|no`: folders by name, every file, or none")
	flags.BoolVar(&o.ignored, "ignored", false, "show ignored files, too")
	return cmd
}

// setPorcelain accepts git's first format, the only one that kist has.
func (o *statusOptions) setPorcelain(value string) error {
	switch value {
	case "true", "v1", "1":
		o.porcelain = true
		return nil
	}
	return errors.New("only v1 is known")
}

func (o *statusOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	specs, err := input.Pathspecs(env, r, args, false)
	if err != nil {
		return err
	}
	paths, err := statusPaths(ctx, env, r, *o, specs)
	if err != nil {
		return err
	}

	s, err := stage.ReadStatus(ctx, r, stage.StatusOptions{
		Paths: paths, AllUntracked: o.untracked == "all" || !specs.IsPlain(), NoUntracked: o.untracked == "no", Ignored: o.ignored,
	})
	if err != nil {
		return err
	}

	switch {
	case env.Global.JSON:
		statusJSON(env, r, s)
	case o.nul || o.porcelain || o.short:
		statusShort(env, r, *o, s)
	default:
		statusLong(ctx, env, r, *o, s)
	}
	if s.HeadLost {
		return cli.Hintf(cli.Failf(cli.ExitPartial, "lost", "the commit of HEAD, %s, is lost, and all that is staged counts as added", s.Head.ID.Short()), cli.HintLost)
	}
	return err
}

// statusPaths returns the paths that pathspecs select. Each has to match
// something in HEAD, in the index or in the worktree.
func statusPaths(ctx context.Context, env *cli.Env, r *kist.Repository, o statusOptions, specs pathspec.List) ([]string, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	head, err := compare.OfHead(ctx, r)
	if err != nil && !cli.IsLost(err) {
		return nil, err
	}
	in := pathspec.Places{Views: []compare.Side{head}, Index: true, Worktree: true, Ignored: o.ignored}
	if err := pathspec.CheckMatches(ctx, r, specs, in); err != nil {
		return nil, err
	}
	return pathspec.Find(ctx, r, specs, in)
}

// statusShort prints a status as --short and --porcelain do.
func statusShort(env *cli.Env, r *kist.Repository, o statusOptions, s *stage.Status) {
	machine := o.porcelain || o.nul
	end := "\n"
	if o.nul {
		end = "\x00"
	}
	shown := func(path string) string {
		switch {
		case o.nul:
			return path
		case machine:
			return cli.QuoteSpaced(path)
		}
		return cli.QuoteSpaced(env.Relative(r, path))
	}

	paint := func(color cli.Style, text string) string {
		if machine {
			return text
		}
		return env.Paint(color, text)
	}
	painted := func(color cli.Style, letters ...byte) string {
		if letters[0] == ' ' {
			return " "
		}
		return paint(color, string(letters))
	}

	if o.branch {
		env.Printf("## %s%s", branchLine(s, paint), end)
	}
	for _, l := range statusLines(s) {
		letters := painted(cli.Green, l.index) + painted(cli.Red, l.worktree)
		if l.isOneLetter() {
			letters = painted(cli.Red, l.index, l.worktree)
		}
		switch {
		case l.from == "":
			env.Printf("%s %s%s", letters, shown(l.path), end)
		case o.nul:
			env.Printf("%s %s%s%s%s", letters, shown(l.path), end, shown(l.from), end)
		default:
			env.Printf("%s %s -> %s%s", letters, shown(l.from), shown(l.path), end)
		}
	}
}

// branchLine names HEAD for the first line of a short status.
func branchLine(s *stage.Status, paint func(cli.Style, string) string) string {
	switch {
	case s.Head.Branch == "":
		return paint(cli.Red, "HEAD (no branch)")
	case s.Head.ID.IsZero():
		return "No commits yet on " + paint(cli.Green, s.Head.Branch)
	case s.Tracking == nil:
		return paint(cli.Green, s.Head.Branch)
	}
	upstream, how := standing(*s.Tracking)
	line := paint(cli.Green, s.Head.Branch) + "..." + paint(cli.Red, upstream)
	if how == "" {
		return line
	}
	for _, count := range []struct {
		n     int
		label string
		color cli.Style
	}{{s.Tracking.Ahead, "ahead ", cli.Green}, {s.Tracking.Behind, "behind ", cli.Red}} {
		number := fmt.Sprint(count.n)
		how = strings.Replace(how, count.label+number, count.label+paint(count.color, number), 1)
	}
	return line + " [" + strings.TrimPrefix(how, ": ") + "]"
}

// statusLineJSON is a path as status prints it with --json.
type statusLineJSON struct {
	jsonform.AtPath
	Index    string `json:"index" doc:"the letter for the index"`
	Worktree string `json:"worktree" doc:"the letter for the worktree"`
	From     string `json:"renamed_from,omitempty" doc:"the path before a rename"`
	FromRaw  []byte `json:"renamed_from_raw,omitempty"`
	Reason   string `json:"reason,omitempty" doc:"why the file is not known, with the letter X"`
	Purged   bool   `json:"purged,omitempty" doc:"true for an unchanged file that is absent, since its content was purged"`
	Lost     bool   `json:"lost,omitempty" doc:"true for an unchanged file that is absent, since its content is lost"`

	NotStored  string `json:"not_stored,omitempty" doc:"why add leaves out an untracked path"`
	NotWritten bool   `json:"not_written,omitempty" doc:"true for a .git folder that kist does not write"`
}

// statusHeadJSON is the first line that status prints with --json.
type statusHeadJSON struct {
	Branch *string    `json:"branch" doc:"the branch; null: HEAD is detached"`
	ID     *object.ID `json:"id" doc:"the commit; null: there is none yet"`
	trackingJSON
	Operation string    `json:"operation,omitempty" doc:"the operation in progress" values:"merge|revert|cherry-pick|rebase"`
	Other     object.ID `json:"other,omitzero" doc:"its commit at hand"`
	Onto      object.ID `json:"onto,omitzero" doc:"the commit that a rebase builds on"`
	Bisecting string    `json:"bisecting,omitempty" doc:"the branch or commit where a bisect was started"`
	Clean     bool      `json:"clean" doc:"true if no path follows, except for those of not_stored and not_written"`
}

// statusJSON prints the status as JSON.
func statusJSON(env *cli.Env, r *kist.Repository, s *stage.Status) {
	lines := statusLines(s)
	head := statusHeadJSON{
		Branch: cli.OrNull(s.Head.Branch), ID: cli.OrNull(s.Head.ID), trackingJSON: newTrackingJSON(s.Tracking),
		Operation: string(s.State.Operation), Other: s.State.Other, Onto: s.State.Onto,
		Clean: len(lines)+len(s.Purged)+len(s.Lost) == 0,
	}
	if b, err := bisect.Current(r); err == nil {
		head.Bisecting = b.Start
	}
	env.JSON(head)

	for _, l := range lines {
		env.JSON(statusLineJSON{
			AtPath: jsonform.NewPath(l.path), Index: string(l.index), Worktree: string(l.worktree),
			From: l.from, FromRaw: jsonform.Raw(l.from), Reason: l.reason,
		})
	}

	for _, f := range s.Purged {
		env.JSON(statusLineJSON{AtPath: jsonform.NewPath(f.Path), Index: " ", Worktree: " ", Purged: true})
	}
	for _, f := range s.Lost {
		env.JSON(statusLineJSON{AtPath: jsonform.NewPath(f.Path), Index: " ", Worktree: " ", Lost: true})
	}
	for _, left := range notStored(s) {
		env.JSON(statusLineJSON{AtPath: jsonform.NewPath(left.Path), Index: " ", Worktree: " ", NotStored: left.Reason})
	}
	for _, path := range s.Unwritten {
		env.JSON(statusLineJSON{AtPath: jsonform.NewPath(path), Index: " ", Worktree: " ", NotWritten: true})
	}
}

// notStored returns the paths that add leaves out though nothing ignores them, sorted, with
// the reasons.
func notStored(s *stage.Status) []object.Skipped {
	left := gitLeftOut(s)
	for _, f := range s.Skipped {
		if f.State != worktree.Unreadable && f.Old == nil {
			left = append(left, object.Skipped{Path: f.Path, Reason: skipReason(f)})
		}
	}
	slices.SortFunc(left, func(a, b object.Skipped) int { return tree.ComparePaths(a.Path, b.Path) })
	return left
}

// statusLine is a path in a status, with git's two letters; a space means no change.
type statusLine struct {
	path            string // with a slash at the end of a folder
	from            string // its path in HEAD, if it was renamed
	index, worktree byte
	reason          string // why it cannot be read
}

// isOneLetter reports whether the two letters mean one thing together.
func (l *statusLine) isOneLetter() bool {
	return l.index == '?' || l.index == '!' || conflictNames[string([]byte{l.index, l.worktree})] != ""
}

// statusLines returns the paths of a status, in git's order: tracked paths, then
// untracked ones, then ignored ones.
func statusLines(s *stage.Status) []statusLine {
	at := map[string]*statusLine{}
	line := func(path string) *statusLine {
		l := at[path]
		if l == nil {
			l = &statusLine{path: path, index: ' ', worktree: ' '}
			at[path] = l
		}
		return l
	}

	for _, c := range s.Staged {
		l := line(cli.Folded(c.Path, c.IsFolder()))
		l.index, l.from = c.Letter(), c.From
	}
	for _, f := range changedPaths(s) {
		// A folder in the place of a file goes by the name of the file.
		line(cli.Folded(f.Path, f.Dir && f.State != worktree.TypeChanged)).worktree = foundLetter(f)
	}

	for _, f := range s.Skipped {
		if f.State == worktree.Unreadable {
			l := line(cli.Folded(f.Path, f.Dir))
			l.worktree, l.reason = 'X', skipReason(f)
		}
	}

	for _, c := range s.Conflicts {
		letters := conflictLetters(c)
		l := line(c.Path)
		l.index, l.worktree = letters[0], letters[1]
	}
	lines := make([]statusLine, 0, len(at)+len(s.Untracked)+len(s.Ignored))
	for _, l := range at {
		lines = append(lines, *l)
	}
	slices.SortFunc(lines, func(a, b statusLine) int { return tree.ComparePaths(a.path, b.path) })
	for _, f := range listedChanges(s.Untracked) {
		lines = append(lines, statusLine{path: cli.Folded(f.Path, f.Dir), index: '?', worktree: '?'})
	}

	for _, f := range listedChanges(s.Ignored) {
		lines = append(lines, statusLine{path: cli.Folded(f.Path, f.Dir), index: '!', worktree: '!'})
	}
	return lines
}

// changedPaths returns the tracked paths that have changed in the worktree.
// Where a FIFO or the like has taken the place of a file, the file is gone.
func changedPaths(s *stage.Status) []*worktree.Found {
	changed := listedChanges(s.Changed)
	for _, f := range s.Skipped {
		if f.State != worktree.Unreadable && f.Old != nil {
			changed = append(changed, &worktree.Found{Path: f.Path, State: worktree.Deleted, Old: f.Old})
		}
	}
	return changed
}

// listedChanges leaves out folders that came or went, if their files are listed.
func listedChanges(found []*worktree.Found) []*worktree.Found {
	var shown []*worktree.Found
	for i, f := range found {
		whole := f.State == worktree.Deleted || f.State == worktree.Untracked || f.State == worktree.Ignored
		if f.Dir && whole && i+1 < len(found) && tree.Below(found[i+1].Path, f.Path) {
			continue
		}
		shown = append(shown, f)
	}
	return shown
}

// foundLetter returns git's letter for a difference between the worktree and the index.
func foundLetter(f *worktree.Found) byte {
	switch f.State {
	case worktree.Deleted:
		return 'D'
	case worktree.TypeChanged:
		return 'T'
	case worktree.Untracked: // to be added
		return 'A'
	}
	return 'M'
}

// skipReason returns the reason why a path cannot be stored.
func skipReason(f *worktree.Found) string {
	if f.Err != nil && f.State == worktree.Unreadable {
		return stage.ReasonWithoutPath(f.Err)
	}
	return f.State.String()
}

// conflictNames has the meanings of the letters of conflicts.
var conflictNames = map[string]string{
	"DD": "both deleted", "AU": "added by us", "UD": "deleted by them", "UA": "added by them",
	"DU": "deleted by us", "AA": "both added", "UU": "both modified",
}

// conflictLetters returns git's letters for a conflict: our change, and theirs.
func conflictLetters(c index.Conflict) string {
	type sides struct{ base, ours, theirs bool }
	return map[sides]string{
		{false, true, true}: "AA", {true, true, true}: "UU", {false, true, false}: "AU", {false, false, true}: "UA",
		{true, true, false}: "UD", {true, false, true}: "DU", {true, false, false}: "DD",
	}[sides{c.Base != nil, c.Ours != nil, c.Theirs != nil}]
}
