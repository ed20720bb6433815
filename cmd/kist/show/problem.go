package show

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/repair"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/pending"
)

// ProblemJSON is something wrong in a repository or on a remote, as verify prints it with
// --json.
type ProblemJSON struct {
	Kind    string      `json:"kind" doc:"the kind of the object, or volume, ref, reflog, index, records, remote, lost, view, pending or blob"`
	ID      *object.ID  `json:"id" doc:"the object; null: the problem is not about one"`
	File    string      `json:"file,omitempty" doc:"the file, below .kist"`
	Blob    string      `json:"blob,omitempty" doc:"the blob of the remote"`
	Problem string      `json:"problem" doc:"the problem"`
	Commits []object.ID `json:"commits" doc:"the first 100 commits that need it"`
	Paths   []string    `json:"paths" doc:"the first 100 paths that need it"`
	RawPath [][]byte    `json:"paths_raw,omitempty" doc:"the bytes of all paths, if one is not UTF-8"`
}

// NewProblemJSON describes a problem of the repository.
func NewProblemJSON(p *gc.Problem) ProblemJSON {
	out := ProblemJSON{Kind: "volume", Problem: p.Err.Error()}
	var file *object.DamageError
	var obj *object.CorruptError
	var missing *object.AbsentError
	switch kind := damagedKind(p.Err); {
	case kind != "" && errors.As(p.Err, &file):
		out.Kind, out.File, out.Problem = kind, file.Name, file.Err.Error()
	case errors.Is(p.Err, transfer.ErrState):
		out.Kind, out.File = "remote", p.Where
		if errors.As(p.Err, &file) {
			out.Problem = file.Err.Error()
		}
	case errors.Is(p.Err, kist.ErrLostList):
		out.Kind, out.File = "lost", p.Where
	case errors.Is(p.Err, repair.ErrView) && errors.As(p.Err, &file):
		out.Kind, out.File, out.Problem = "view", file.Name, file.Err.Error()
	case errors.Is(p.Err, pending.ErrJournal) && errors.As(p.Err, &file):
		out.Kind, out.File, out.Problem = "pending", file.Name, file.Err.Error()
	case errors.As(p.Err, &obj):
		out.File = obj.Where
		if obj.Key == p.Key {
			out.Problem = obj.Err.Error()
		}
	case errors.As(p.Err, &missing) && missing.Key == p.Key:
		out.Problem = "missing"
	}
	if strings.HasPrefix(p.Where, "volumes/") {
		out.File = p.Where
	}
	return out.withAffected(p)
}

// damagedKind returns the kind of a damaged file of refs, the index or the records, or "".
func damagedKind(err error) string {
	switch {
	case cli.IsLogDamage(err):
		return "reflog"
	case errors.Is(err, refs.ErrDamaged):
		return "ref"
	case errors.Is(err, index.ErrDamaged):
		return "index"
	case errors.Is(err, record.ErrDamaged):
		return "records"
	}
	return ""
}

// NewRemoteProblemJSON describes a problem of a remote. p.Where is the blob.
func NewRemoteProblemJSON(p *gc.Problem) ProblemJSON {
	out := ProblemJSON{Kind: "blob", Blob: p.Where, Problem: p.Err.Error()}
	var corrupt *object.CorruptError
	if errors.As(p.Err, &corrupt) && corrupt.Key == p.Key {
		out.Problem = corrupt.Where + ": " + corrupt.Err.Error()
	}
	return out.withAffected(p)
}

// withAffected returns out with the object of p, and the commits and paths that p affects.
func (out ProblemJSON) withAffected(p *gc.Problem) ProblemJSON {
	if !p.Key.IsZero() {
		out.Kind, out.ID = p.Key.Kind.String(), &p.Key.ID
	}
	out.Commits, out.Paths = append([]object.ID{}, p.Commits...), append([]string{}, p.Paths...)
	if slices.ContainsFunc(p.Paths, func(path string) bool { return jsonform.Raw(path) != nil }) {
		for _, path := range p.Paths {
			out.RawPath = append(out.RawPath, []byte(path))
		}
	}
	return out
}

// NewProblemsJSON describes problems with one of the functions above.
func NewProblemsJSON(problems []*gc.Problem, describe func(*gc.Problem) ProblemJSON) []ProblemJSON {
	list := make([]ProblemJSON, len(problems))
	for i, p := range problems {
		list[i] = describe(p)
	}
	return list
}

// The most lines that are printed; --json has all.
const (
	ShownProblems = 50
	shownCommits  = 5 // of each problem
	ShownPaths    = 10
)

// PrintProblems prints problems for a person.
func PrintProblems(ctx context.Context, env *cli.Env, r *kist.Repository, problems []ProblemJSON) {
	for i, p := range problems {
		if i == ShownProblems {
			env.Printf("%s; --json shows all\n", cli.AndMore(uint64(len(problems)-i)))
			break
		}

		what := p.Kind
		switch {
		case p.ID != nil:
			what += " " + p.ID.String()
		case p.Blob != "":
			what = cli.Printable(p.Blob)
		}
		if p.File != "" {
			what += ", in " + cli.QuotePath(cli.RepositoryFile(r, p.File))
		}
		env.Printf("%s: %s\n", env.Paint(cli.Red, what), cli.Printable(p.Problem))
		PrintAffected(ctx, env, r, p.Commits, p.Paths)
	}
}

// PrintAffected names the first of the commits and paths that a problem affects.
func PrintAffected(ctx context.Context, env *cli.Env, r *kist.Repository, commits []object.ID, paths []string) {
	lines := cli.FirstOf(commits, shownCommits, " commits", func(id object.ID) string {
		line := "commit " + id.Short() + " "
		if c, err := object.ReadCommit(ctx, r.Objects(), id); err == nil {
			line += cli.Printable(cli.Subject(c.Message))
		}
		return line
	})
	lines = append(lines, cli.FirstOf(paths, ShownPaths, " paths", func(path string) string { return "path " + cli.QuotePath(path) })...)
	for _, line := range lines {
		env.Printf("  %s\n", line)
	}
}

// DamageFound returns the error of a command that found n damaged things, and nil if n is
// 0. With --json the things are printed already.
func DamageFound(env *cli.Env, n int, one, many string, hints []string) error {
	switch {
	case n == 0:
		return nil
	case env.Global.JSON:
		return cli.Quiet(cli.ExitDamaged)
	}
	return &cli.Failure{Err: errors.New(readable.Plural(uint64(n), one, many)), Exit: cli.ExitDamaged, Hints: hints}
}

const hintRepair = "'kist verify --repair' looks for intact copies: in other volumes, on remotes, in the worktree"

// hintsOfKind has advice on problems of a kind, if it is not [hintRepair].
var hintsOfKind = map[string]string{
	"ref": cli.HintRef, "reflog": cli.HintLog, "index": cli.HintIndex, "records": cli.HintRecords, "remote": cli.HintRemoteState,
	"view": "no commit is affected: 'kist verify --repair' or 'kist view rebuild' makes it again",
}

// ProblemHints returns advice on the problems, each once.
func ProblemHints(problems []ProblemJSON) []string {
	var hints []string
	for _, p := range problems {
		hint := cmp.Or(hintsOfKind[p.Kind], hintRepair)
		if !slices.Contains(hints, hint) {
			hints = append(hints, hint)
		}
	}
	return hints
}
