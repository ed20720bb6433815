package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/index"
)

type verifyOptions struct {
	readData   string
	remote     string
	repair     bool
	from       []string
	acceptLoss bool
	dryRun     bool
	singleHost bool
}

func newVerify(env *Env) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:     "verify [OPTIONS]",
		Aliases: []string{"fsck"},
		Short:   "check the repository for damage",
		Long: `Checks that the repository is complete and consistent: volumes, commits,
folders, lists of chunks, branches, tags, their logs, the index, and the saved
state of remotes. By default, it checks that all stored content exists. With
--read-data it also reads and hashes the content: all of it, a random share
('--read-data=5%'), or part N of T ('--read-data=2/7', for a different seventh
on each day of the week).

verify names everything that is damaged: the object, its file, and the commits
and paths that need it. It changes nothing, except that it notes the damaged
objects: kist stores them again when it adds the same content.

--repair reads everything and repairs damage. It takes objects from another copy
here, from a remote (with --from NAME, only that one), or from files in the
worktree with the same content. It replaces damaged volumes by new ones with all
intact objects. It rebuilds the index from HEAD. It sets refs back to the last
value in their logs, or else to the remote-tracking branch. It rebuilds damaged
records of holds, expirations and purges from the readable ones and those of
remotes. Damaged files go to .kist/quarantine; repair deletes nothing. It names
lost objects with their commits and paths, and then exits with status 11. With
-n, it only shows the plan. Other commands can run at the same time. If
a repair is interrupted, the next one finishes it.

--accept-loss accepts the loss of objects that nothing can restore. After that,
log, gc and other commands work without them. If a lost object comes back, it is
used again. Damaged records are replaced by the readable ones. A remote that
seems to have been rolled back is used as it is.

--remote checks a remote instead: that each entry of its log follows the one
before, and that all packs, their indexes, and all objects that its branches and
tags need exist. --read-data then downloads all packs, or a share of them. With
--repair, kist sends the needed objects of damaged packs from here, rebuilds
index files, and marks the damaged files for gc to delete.

With --json: objects and bytes that were checked, commits, healed (damaged
copies of objects with another intact copy), errors and accepted losses. Each
has kind and id of the object (null if it is about none), file, problem, commits
and paths, the first 100 of each. With --repair also dry_run, repaired (kind,
id, file, how), quarantined (file, to) and lost (as errors). For a remote:
roots, indexes, packs, objects, bytes, and errors, with kind and id, blob,
problem, commits and paths (as far as the repository here knows them); with
--repair dry_run, errors, repaired (names), objects_sent and lost.`,
		Example: `  kist verify
  kist verify --read-data
  kist verify --read-data=10% --json
  kist verify --remote origin
  kist verify --repair --dry-run
  kist verify --repair
  kist verify --remote origin --repair`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.combine(); err != nil {
				return err
			}
			switch {
			case o.remote != "":
				return runVerifyRemote(cmd.Context(), env, o)
			case o.repair:
				return runRepair(cmd.Context(), env, o)
			}
			return runVerify(cmd.Context(), env, o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	opensRepository(cmd, exitBusy)
	o.register(cmd, env)
	return cmd
}

func (o *verifyOptions) register(cmd *cobra.Command, env *Env) {
	flags := cmd.Flags()
	flags.BoolVar(&o.repair, "repair", false, "repair damage from intact copies, as far as there are any")
	flags.StringArrayVar(&o.from, "from", nil, "with --repair: take intact copies only from the remote `NAME`")
	flags.BoolVar(&o.acceptLoss, "accept-loss", false, "with --repair: accept the loss of objects that nothing can restore")
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "with --repair: only show what would be done")
	flags.BoolVar(&o.singleHost, "single-host", false, "with --repair: work on a network file system; no other machine may use it now")
	flags.StringVar(&o.readData, "read-data", "", "also read and hash stored content: all of it, or the share `N%|N/T`")
	flags.Lookup("read-data").NoOptDefVal = "100%"
	flags.StringVar(&o.remote, "remote", "", "check the remote `NAME`")
	for _, name := range []string{"remote", "from"} {
		must(cmd.RegisterFlagCompletionFunc(name, env.complete(remotes)))
	}
	env.transfer.register(cmd)
}

// verifyJSON is what verify prints with --json.
type verifyJSON struct {
	Objects int           `json:"objects"`
	Bytes   int64         `json:"bytes"`
	Commits int           `json:"commits"`
	Healed  int           `json:"healed"` // damaged copies of objects that have another copy
	Errors  []problemJSON `json:"errors"`

	Accepted []problemJSON `json:"accepted"` // losses: with --repair those from now on, else all

	*repairJSON // with --repair
}

// problemJSON is something that verify found to be wrong.
type problemJSON struct {
	Kind    string      `json:"kind"` // of object, or: volume, ref, reflog, index, records, remote, lost
	ID      *object.ID  `json:"id"`
	File    string      `json:"file,omitempty"`
	Problem string      `json:"problem"`
	Commits []object.ID `json:"commits"`
	Paths   []string    `json:"paths"`
	RawPath [][]byte    `json:"paths_raw,omitempty"` // all of paths, if one is not UTF-8
}

func runVerify(ctx context.Context, env *Env, o verifyOptions) error {
	check, err := o.check(env)
	if err != nil {
		return err
	}
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	at := newVerifyProgress(ctx, env, r, check)
	defer at.stop()
	check.Progress = at.checking
	warnReadable(env, r)
	report, err := gc.VerifyRepository(ctx, r, gc.VerifyOptions{Volumes: check, Progress: at.following})
	at.stop()
	if err != nil {
		return err
	}
	lost, err := r.Objects().Lost(ctx)
	if err != nil {
		return err
	}
	if env.global.json {
		return printVerifyJSON(env, report, lost)
	}
	printProblems(ctx, env, r, report.Problems)
	if n := uint64(len(report.Healed)); n > 0 {
		env.info("%s damaged, but another copy is intact", plural(n, "stored object is", "stored objects are"))
	}
	for _, key := range lost {
		env.tell("accepted as lost: %s %s\n", key.Kind, key.ID)
	}
	n := len(report.Problems)
	if n == 0 {
		env.tell("no errors found: %s, %s read; %s\n", plural(uint64(report.Objects), "object", "objects"),
			formatSize(uint64(report.Bytes)), plural(uint64(report.Commits), "commit", "commits"))
		return nil
	}
	return &failure{
		err:  fmt.Errorf("%s damaged or missing", plural(uint64(n), "thing is", "things are")),
		exit: exitDamaged, hints: problemHints(report.Problems),
	}
}

// check returns what of the stored data is read.
func (o verifyOptions) check(env *Env) (volume.CheckOptions, error) {
	bad := usagef("--read-data %s is neither a share as in 5%% nor a part as in 2/7", quoteArg(o.readData))
	if o.readData == "" {
		return volume.CheckOptions{}, nil
	}
	check := volume.CheckOptions{ReadData: true}
	if strings.HasSuffix(o.readData, "%") {
		share, err := kist.ParseShare(o.readData)
		if err != nil {
			return check, bad
		}
		if share == 1 {
			return check, nil
		}
		var seed [8]byte
		if _, err := env.Random.Read(seed[:]); err != nil {
			return check, err
		}
		check.Subset = randomShare(seed, share)
		return check, nil
	}
	part, parts, ok := strings.Cut(o.readData, "/")
	k, err1 := strconv.Atoi(part)
	n, err2 := strconv.Atoi(parts)
	if !ok || err1 != nil || err2 != nil || k < 1 || k > n {
		return check, bad
	}
	// A stretch of all objects, which lie side by side.
	check.Subset = func(i, all int) bool {
		hi, lo := bits.Mul64(uint64(i), uint64(n))
		at, _ := bits.Div64(hi, lo, uint64(all))
		return at == uint64(k-1)
	}
	return check, nil
}

// randomShare returns a function that is true for about a share of all
// numbers, others for another seed.
func randomShare(seed [8]byte, share float64) func(i, n int) bool {
	limit := uint64(share * math.MaxUint64)
	var start uint64
	for _, b := range seed {
		start = start<<8 | uint64(b)
	}
	return func(i, _ int) bool {
		x := start + uint64(i+1)*0x9e3779b97f4a7c15 // splitmix64
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x^x>>31 < limit
	}
}

func printVerifyJSON(env *Env, report *gc.Report, lost []object.Key) error {
	out := newVerifyJSON(report)
	out.Accepted = make([]problemJSON, len(lost))
	for i, key := range lost {
		out.Accepted[i] = newProblemJSON(&gc.Problem{Key: key, Err: &object.NotFoundError{Key: key}})
	}
	env.json(out)
	if len(report.Problems) > 0 {
		return quiet(exitDamaged)
	}
	return nil
}

func newVerifyJSON(report *gc.Report) verifyJSON {
	return verifyJSON{
		Objects: report.Objects, Bytes: report.Bytes, Commits: report.Commits, Healed: len(report.Healed),
		Errors: newProblemsJSON(report.Problems),
	}
}

func newProblemsJSON(problems []*gc.Problem) []problemJSON {
	list := make([]problemJSON, len(problems))
	for i, p := range problems {
		list[i] = newProblemJSON(p)
	}
	return list
}

func newProblemJSON(p *gc.Problem) problemJSON {
	out := problemJSON{
		Kind: problemKind(p), File: problemFile(p), Problem: problemText(p),
		Commits: append([]object.ID{}, p.Commits...), Paths: append([]string{}, p.Paths...),
	}
	if !p.Key.IsZero() {
		out.ID = &p.Key.ID
	}
	for _, at := range p.Paths {
		if rawPath(at) == nil {
			continue
		}
		for _, at := range p.Paths {
			out.RawPath = append(out.RawPath, []byte(at))
		}
		break
	}
	return out
}

// problemKind returns the kind of object that a problem is about, or the kind
// of file.
func problemKind(p *gc.Problem) string {
	switch {
	case !p.Key.IsZero():
		return p.Key.Kind.String()
	case isLogDamage(p.Err):
		return "reflog"
	case isA[*refs.CorruptError](p.Err):
		return "ref"
	case isA[*index.CorruptError](p.Err):
		return "index"
	case isA[*record.CorruptError](p.Err):
		return "records"
	case errors.Is(p.Err, transfer.ErrState):
		return "remote"
	case errors.Is(p.Err, kist.ErrLostList):
		return "lost"
	}
	return "volume"
}

// problemFile returns the file in .kist that a problem is in, as far as it is
// known.
func problemFile(p *gc.Problem) string {
	var ref *refs.CorruptError
	var idx *index.CorruptError
	var obj *object.CorruptError
	switch {
	case errors.As(p.Err, &ref):
		return ref.File
	case errors.As(p.Err, &idx):
		return path.Base(idx.File)
	case isA[*record.CorruptError](p.Err):
		return record.File
	case strings.HasPrefix(p.Where, "volumes/"), errors.Is(p.Err, transfer.ErrState), errors.Is(p.Err, kist.ErrLostList):
		return p.Where
	case errors.As(p.Err, &obj):
		return obj.Where
	}
	return ""
}

// problemText describes a problem, without the object, which is printed beside it.
func problemText(p *gc.Problem) string {
	var ref *refs.CorruptError
	var idx *index.CorruptError
	var obj *object.CorruptError
	var missing *object.NotFoundError
	var records *record.CorruptError
	var state *object.DamageError
	switch {
	case errors.As(p.Err, &ref):
		return ref.Err.Error()
	case errors.As(p.Err, &idx):
		return idx.Err.Error()
	case errors.As(p.Err, &records):
		return records.Err.Error()
	case errors.Is(p.Err, transfer.ErrState) && errors.As(p.Err, &state):
		return state.Err.Error()
	case errors.As(p.Err, &obj) && obj.Key == p.Key:
		return obj.Err.Error()
	case errors.As(p.Err, &missing) && missing.Key == p.Key:
		return "missing"
	}
	return p.Err.Error()
}

// The most lines that are printed; --json has all.
const (
	shownProblems = 50
	shownCommits  = 5 // of each problem
	shownPaths    = 10
)

// printProblems prints problems for a person.
func printProblems(ctx context.Context, env *Env, r *kist.Repository, problems []*gc.Problem) {
	for i, problem := range problems {
		if i == shownProblems {
			env.printf("and %s more; --json shows all\n", formatCount(uint64(len(problems)-i)))
			break
		}
		printProblem(ctx, env, r, problem)
	}
}

// printProblem prints a problem for a person.
func printProblem(ctx context.Context, env *Env, r *kist.Repository, p *gc.Problem) {
	what := problemKind(p)
	if !p.Key.IsZero() {
		what += " " + p.Key.ID.String()
	}
	if file := problemFile(p); file != "" {
		what += ", in " + quotePath(repositoryFile(r, file))
	}
	env.printf("%s: %s\n", env.paint(red, what), printable(problemText(p)))
	printAffected(ctx, env, r, p.Commits, p.Paths)
}

// printAffected names commits and paths that a problem affects, the first of them.
func printAffected(ctx context.Context, env *Env, r *kist.Repository, commits []object.ID, paths []string) {
	for i, id := range commits {
		if i == shownCommits {
			env.printf("  and %d more commits\n", len(commits)-i)
			break
		}
		line := ""
		if c, err := object.ReadCommit(ctx, r.Objects(), id); err == nil {
			line = subject(c.Message)
		}
		env.printf("  commit %s %s\n", id.Short(), printable(line))
	}
	for i, at := range paths {
		if i == shownPaths {
			env.printf("  and %d more paths\n", len(paths)-i)
			break
		}
		env.printf("  path %s\n", quotePath(at))
	}
}

const hintRepair = "'kist verify --repair' looks for intact copies: in other volumes, on remotes, in the worktree"

// problemHints returns advice on the problems, each once.
func problemHints(problems []*gc.Problem) []string {
	var hints []string
	given := map[string]bool{}
	for _, p := range problems {
		hint := hintRepair
		switch problemKind(p) {
		case "ref":
			hint = hintRef
		case "reflog":
			hint = hintLog
		case "index":
			hint = hintIndex
		case "records":
			hint = hintRecords
		case "remote":
			hint = hintRemoteState
		}
		if !given[hint] {
			given[hint] = true
			hints = append(hints, hint)
		}
	}
	return hints
}
