package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
)

type statusOptions struct {
	short     bool
	porcelain bool
	nul       bool
	branch    bool
	untracked string
	ignored   bool
}

func newStatus(env *Env) *cobra.Command {
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
quoted, and the new path of a rename comes first.

With --json, for each path: path, index and worktree (the two letters),
renamed_from, reason (of X), purged, lost; with --branch before them: branch,
id, upstream, ahead and behind (how many commits), operation (merge or revert,
if one is in progress). If there is no path to print and no --branch: clean,
which is true.`,
		Example: `  kist status
  kist status -s src
  kist status --porcelain -uall     for programs, and every untracked file`,
	}
	env.inRepository(cmd, o.run, exitPartial)
	flags := cmd.Flags()
	flags.BoolVarP(&o.short, "short", "s", false, "one line for each path")
	flags.BoolFunc("porcelain", "like --short, for programs; =v1 is the same", o.setPorcelain)
	flags.BoolVarP(&o.nul, "null", "z", false, "like --porcelain; paths end with NUL, and are not quoted")
	flags.BoolVarP(&o.branch, "branch", "b", false, "show the branch, too (with --short, --porcelain, --json)")
	flags.VarP(newChoice(&o.untracked, "normal", "all", "no"), "untracked-files", "u", "how to show untracked files: `normal|all|no`: folders by name, every file, or none")
	flags.BoolVar(&o.ignored, "ignored", false, "show ignored files, too")
	must(cmd.RegisterFlagCompletionFunc("untracked-files", cobra.FixedCompletions([]string{"normal", "all", "no"}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// setPorcelain takes the value of --porcelain: git's first format is the only
// one there is.
func (o *statusOptions) setPorcelain(value string) error {
	switch value {
	case "true", "v1", "1":
		o.porcelain = true
		return nil
	}
	return errors.New("only v1 is known")
}

func (o *statusOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	specs, err := env.pathspecs(r, args, false)
	if err != nil {
		return err
	}
	paths, err := env.statusPaths(ctx, r, *o, specs)
	if err != nil {
		return err
	}
	s, err := stage.ReadStatus(ctx, r, stage.StatusOptions{
		Paths: paths, AllUntracked: o.untracked == "all" || !specs.plain(), NoUntracked: o.untracked == "no", Ignored: o.ignored,
	})
	if err != nil {
		return err
	}
	switch {
	case env.global.json:
		err = env.statusJSON(*o, s)
	case o.nul || o.porcelain || o.short:
		env.statusShort(r, *o, s)
	default:
		env.statusLong(r, *o, s)
	}
	if s.HeadLost && err == nil {
		return hintf(failf(exitPartial, "lost", "the commit of HEAD, %s, is lost, and all that is staged counts as added", s.Head.ID.Short()), hintLost)
	}
	return err
}

// statusPaths returns the paths that pathspecs select. Each has to match
// something in HEAD, in the index or in the worktree.
func (e *Env) statusPaths(ctx context.Context, r *kist.Repository, o statusOptions, specs pathspecs) ([]string, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	head, err := view.OfHead(ctx, r)
	if err != nil && !isLost(err) {
		return nil, err
	}
	in := places{views: []view.View{head}, index: true, worktree: true, ignored: o.ignored}
	if err := e.known(ctx, r, specs, in); err != nil {
		return nil, err
	}
	return e.find(ctx, r, specs, in)
}

// statusShort prints a status as --short and --porcelain do.
func (e *Env) statusShort(r *kist.Repository, o statusOptions, s *stage.Status) {
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
			return quoteSpaced(path)
		}
		return quoteSpaced(e.relativeFolder(r, path))
	}
	painted := func(color style, letter byte) string {
		if machine || letter == ' ' {
			return string(letter)
		}
		return e.paint(color, string(letter))
	}
	if o.branch {
		e.printf("## %s%s", branchLine(s), end)
	}
	for _, l := range statusLines(s) {
		letters := painted(green, l.index) + painted(red, l.worktree)
		if l.alike() {
			letters = painted(red, l.index) + painted(red, l.worktree)
		}
		switch {
		case l.from == "":
			e.printf("%s %s%s", letters, shown(l.path), end)
		case o.nul:
			e.printf("%s %s%s%s%s", letters, shown(l.path), end, shown(l.from), end)
		default:
			e.printf("%s %s -> %s%s", letters, shown(l.from), shown(l.path), end)
		}
	}
}

// branchLine names HEAD for the first line of a short status.
func branchLine(s *stage.Status) string {
	switch {
	case s.Head.Branch == "":
		return "HEAD (no branch)"
	case s.Head.ID.IsZero():
		return "No commits yet on " + s.Head.Branch
	case s.Tracking == nil:
		return s.Head.Branch
	}
	name, how, differ := strings.Cut(standing(*s.Tracking), ": ")
	if differ {
		name += " [" + how + "]"
	}
	return s.Head.Branch + "..." + name
}

// statusLineJSON is a path as status prints it with --json.
type statusLineJSON struct {
	Path     string `json:"path"`
	PathRaw  []byte `json:"path_raw,omitempty"`
	Index    string `json:"index"`
	Worktree string `json:"worktree"`
	From     string `json:"renamed_from,omitempty"`
	FromRaw  []byte `json:"renamed_from_raw,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Purged   bool   `json:"purged,omitempty"` // nothing has changed, and there is no file: its content was purged
	Lost     bool   `json:"lost,omitempty"`   // the same: its content is lost
}

// statusHeadJSON is the line that --branch adds.
type statusHeadJSON struct {
	Branch *string    `json:"branch"` // null: HEAD is detached
	ID     *object.ID `json:"id"`     // null: there is no commit yet
	trackingJSON
	Operation string     `json:"operation,omitempty"`
	Other     *object.ID `json:"other,omitempty"` // the commit being merged or reverted
}

func (e *Env) statusJSON(o statusOptions, s *stage.Status) error {
	if o.branch {
		head := statusHeadJSON{Operation: string(s.State.Operation)}
		if s.Head.Branch != "" {
			head.Branch = &s.Head.Branch
		}
		if !s.Head.ID.IsZero() {
			head.ID = &s.Head.ID
		}
		head.trackingJSON = newTrackingJSON(s.Tracking)
		if s.State.Operation != "" {
			head.Other = &s.State.Other
		}
		e.json(head)
	}
	lines := statusLines(s)
	if len(lines)+len(s.Purged)+len(s.Lost) == 0 && !o.branch {
		e.json(map[string]bool{"clean": true})
		return nil
	}
	for _, l := range lines {
		line := statusLineJSON{
			Path: l.path, PathRaw: rawPath(l.path), Index: string(l.index), Worktree: string(l.worktree),
			From: l.from, FromRaw: rawPath(l.from), Reason: l.reason,
		}
		e.json(line)
	}
	for _, f := range s.Purged {
		e.json(statusLineJSON{Path: f.Path, PathRaw: rawPath(f.Path), Index: " ", Worktree: " ", Purged: true})
	}
	for _, f := range s.Lost {
		e.json(statusLineJSON{Path: f.Path, PathRaw: rawPath(f.Path), Index: " ", Worktree: " ", Lost: true})
	}
	return nil
}
