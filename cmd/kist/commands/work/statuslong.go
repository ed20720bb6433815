package work

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/bisect"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// statusLong prints a status for a person to read.
func statusLong(ctx context.Context, env *cli.Env, r *kist.Repository, o statusOptions, s *stage.Status) {
	p := longStatus{env: env, repo: r, status: s, paint: env.Paint, next: nextSteps(ctx, r, s.State.Rest)}
	env.Printf("%s", p.writeAll(o))
}

// nextSteps returns lines for the next two steps, as they are in the list of a rebase.
func nextSteps(ctx context.Context, r *kist.Repository, rest []operation.Step) []string {
	var lines []string
	for i, step := range rest {
		if len(lines) == 2 {
			break
		}
		switch {
		case step.Do == operation.Exec:
			lines = append(lines, "exec "+cli.Printable(step.Command))
		case step.Do == operation.Break:
			lines = append(lines, string(step.Do))
		case step.Do.Merges():
			do := step.Do
			if do == operation.Pick && i+1 < len(rest) && (rest[i+1].Do == operation.Reword || rest[i+1].Do == operation.Edit) {
				do = rest[i+1].Do
			}
			line := string(do) + " " + step.Commit.Short()
			if c, err := object.ReadCommit(ctx, r.Objects(), step.Commit); err == nil {
				line += " " + cli.Printable(c.Subject())
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// longStatus writes a status for a person.
type longStatus struct {
	env    *cli.Env
	repo   *kist.Repository
	status *stage.Status
	paint  func(cli.Style, string) string
	next   []string // lines for the next steps of the operation
	draft  bool     // for a commit's message: without advice
	all    bool     // the commit includes changes that are not staged
	out    strings.Builder
}

func (p *longStatus) writeAll(o statusOptions) string {
	s := p.status
	p.writeHead(s.Head)
	if s.Tracking != nil && !p.draft {
		p.writef("%s", standingLong(*s.Tracking))
	}
	p.writeBisect()
	p.writeOperation()
	p.writeStaged()
	p.writeConflicts()
	p.writeChanged()
	p.writePaths("Untracked files", "'kist add PATH...' tracks them", s.Untracked)
	p.writePaths("Ignored files", "'kist add -f PATH...' tracks them nevertheless", s.Ignored)
	p.writeSkipped()
	if !p.draft {
		p.writePaths("Purged", "tracked, but their content was purged: 'kist rm PATH...' leaves them out of commits", p.status.Purged)
		p.writePaths("Lost", "tracked, but their content is lost: 'kist checkout PATH...' writes them if it is back", p.status.Lost)
		p.writeUnwritten()
		p.writeConclusion(o)
	}
	return p.out.String()
}

func (p *longStatus) writef(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

func (p *longStatus) writeHead(head refs.Head) {
	if head.Branch == "" {
		p.writef("HEAD detached at %s\n", detachedAt(p.repo, head.ID))
	} else {
		p.writef("On branch %s\n", head.Branch)
	}
	if head.ID.IsZero() {
		p.writef("\nNo commits yet\n")
	}
}

// writeBisect says that a bisect is under way.
func (p *longStatus) writeBisect() {
	if b, err := bisect.Current(p.repo); err == nil {
		p.writef("You are currently bisecting, started from '%s'.\n  ('kist bisect reset' goes back to it)\n", cli.Printable(b.Start))
	}
}

func (p *longStatus) writeOperation() {
	s := p.status
	if s.State.Operation == "" {
		if !p.draft && hasAutostash(p.repo) {
			p.writef("Local changes that a rebase put aside are in stash@{0}.\n  ('kist stash pop' brings them back)\n")
		}
		return
	}
	st := s.State
	conclude := "'kist commit'"
	switch st.Operation {
	case operation.Rebasing:
		p.writef("\nrebase in progress; onto %s\n", st.Onto.Short())
		conclude = "'kist rebase --continue'"
		what := "rebasing"
		if st.Doing == operation.Edit {
			what = "editing a commit while rebasing"
		}
		if branch, ok := refs.BranchOf(st.Branch); ok {
			what += fmt.Sprintf(" branch '%s' on '%s'", branch, st.Onto.Short())
		}
		p.writef("You are currently %s.\n", what)
	case operation.Picking:
		p.writef("\nYou are currently cherry-picking commit %s.\n", st.Other.Short())
	default:
		p.writef("\nA %s of %s is under way.\n", st.Operation, st.Other.Short())
	}

	switch {
	case len(s.Conflicts) > 0:
		p.writef("  (resolve the conflicts, then %s)\n", conclude)
	case st.Stopped:
		p.writef("  (all conflicts are resolved: %s concludes it)\n", conclude)
	case st.Doing == operation.Edit:
		p.writef("  ('kist commit --amend' changes the commit)\n  ('kist rebase --continue' when you are satisfied)\n")
	}
	n := 0
	for _, step := range st.Rest {
		if step.Do.Merges() {
			n++
		}
	}
	if n > 0 || st.Operation != operation.Merging && st.Doing == "" {
		p.writef("  (%s to go: 'kist %s --continue')\n", readable.Plural(uint64(n), "commit", "commits"), st.Operation)
	}
	if len(p.next) > 0 {
		p.writef("Next to do:\n")
	}
	for _, line := range p.next {
		p.writef("   %s\n", line)
	}
	if st.Operation != operation.Merging && st.Stopped {
		p.writef("  ('kist %s --skip' leaves this commit out)\n", st.Operation)
	}
	p.writef("  ('kist %s --abort' goes back to how it was before)\n", st.Operation)
}

func (p *longStatus) writeStaged() {
	if len(p.status.Staged) == 0 && !p.all {
		return
	}
	unstage := "'kist restore --staged PATH...' unstages"
	if p.status.Head.ID.IsZero() {
		unstage = "'kist rm --cached PATH...' unstages"
	}
	p.writeTitle("Changes to be committed", unstage)
	for _, c := range p.status.Staged {
		p.writeLine(cli.Green, changeLabel(c), 12, p.changeText(c))
	}
	if p.all {
		p.writeUnstaged()
	}
}

// writeTitle begins a section. A draft has no advice.
func (p *longStatus) writeTitle(title, hint string) {
	p.writef("\n%s:\n", title)
	if !p.draft {
		p.writef("  (%s)\n", hint)
	}
}

func (p *longStatus) changeText(c tree.Change) string {
	path := p.env.Shown(p.repo, cli.Folded(c.Path, c.IsFolder())) + show.AttrNote(c.Old, c.New)
	if c.From != "" {
		return p.env.Shown(p.repo, c.From) + " -> " + path
	}
	return path
}

// changeLabel describes a change before its path.
func changeLabel(c tree.Change) string {
	folder := c.IsFolder()
	switch c.Letter() {
	case 'A':
		if folder {
			return "new folder:"
		}
		return "new file:"
	case 'D':
		return "deleted:"
	case 'R':
		return "renamed:"
	case 'T':
		return "typechange:"
	}
	return "modified:"
}

func (p *longStatus) writeConflicts() {
	if len(p.status.Conflicts) == 0 {
		return
	}
	count := readable.Plural(uint64(len(p.status.Conflicts)), "path", "paths")
	p.writeTitle("Conflicts at "+count+" to decide on", "'kist add PATH...' keeps a path, 'kist rm PATH...' drops it")
	for _, c := range p.status.Conflicts {
		p.writeLine(cli.Red, conflictNames[conflictLetters(c)]+":", 17, p.env.Shown(p.repo, c.Path))
	}
}

func (p *longStatus) writeChanged() {
	if len(changedPaths(p.status)) == 0 || p.all {
		return
	}
	p.writeTitle("Changes not staged for commit", "'kist add PATH...' stages them, 'kist restore PATH...' discards them")
	p.writeUnstaged()
}

func (p *longStatus) writeUnstaged() {
	for _, f := range changedPaths(p.status) {
		label := map[byte]string{'A': "new file:", 'D': "deleted:", 'T': "typechange:", 'M': "modified:"}[foundLetter(f)]
		p.writeLine(cli.Red, label, 12, p.foundText(f))
	}
}

func (p *longStatus) foundText(f *worktree.Found) string {
	return p.env.Shown(p.repo, cli.Folded(f.Path, f.Dir))
}

func (p *longStatus) writePaths(title, hint string, found []*worktree.Found) {
	if len(found) == 0 {
		return
	}
	p.writeTitle(title, hint)
	for _, f := range listedChanges(found) {
		p.writeLine(cli.Red, "", 0, p.foundText(f))
	}
}

func (p *longStatus) writeSkipped() {
	shown := map[string]bool{}
	var left []object.Skipped
	for _, f := range p.status.Skipped {
		shown[f.Path] = true
		left = append(left, object.Skipped{Path: f.Path, Reason: skipReason(f)})
	}
	for _, s := range p.status.Partial {
		if !shown[s.Path] {
			left = append(left, s)
		}
	}
	if !p.draft {
		left = append(left, gitLeftOut(p.status)...)
	}
	if len(left) == 0 {
		return
	}
	slices.SortFunc(left, func(a, b object.Skipped) int { return tree.ComparePaths(a.Path, b.Path) })
	p.writef("\nNot stored:\n")
	for _, s := range left {
		p.writeLine(cli.Red, "", 0, cli.ShownSkipped(p.env, p.repo, s))
	}
}

// gitLeftOut returns git's own folders that add leaves out, with the reason.
func gitLeftOut(s *stage.Status) []object.Skipped {
	var left []object.Skipped
	for _, path := range s.LeftOut {
		left = append(left, object.Skipped{Path: path, Reason: "git's own folder; 'kist backup' and 'kist add -f' store it"})
	}
	return left
}

func (p *longStatus) writeUnwritten() {
	if len(p.status.Unwritten) == 0 {
		return
	}
	p.writeTitle("Not written", "git runs commands from these folders; "+cli.HintGit)
	for _, path := range p.status.Unwritten {
		p.writeLine(cli.Red, "", 0, p.env.Shown(p.repo, path))
	}
}

func (p *longStatus) writeLine(color cli.Style, label string, width int, text string) {
	p.writef("\t%s\n", p.paint(color, fmt.Sprintf("%-*s%s", width, label, text)))
}

// writeConclusion prints the next step, if nothing is staged.
func (p *longStatus) writeConclusion(o statusOptions) {
	s := p.status
	if len(s.Staged) > 0 || s.State.Operation != "" {
		return
	}
	p.writef("\n")
	switch {
	case len(changedPaths(s)) > 0 || !s.Clean():
		p.writef("nothing is staged ('kist add' stages changes, 'kist commit -a' stages and commits them)\n")
	case len(s.Untracked) > 0:
		p.writef("nothing is staged, but there are untracked files ('kist add' tracks them)\n")
	case o.untracked == "no":
		p.writef("nothing to commit; untracked files were not looked for\n")
	case s.Head.ID.IsZero():
		p.writef("nothing to commit ('kist add' tracks files)\n")
	default:
		p.writef("nothing to commit, worktree clean\n")
	}
}
