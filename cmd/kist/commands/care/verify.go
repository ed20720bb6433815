package care

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/repair"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/exchange"
)

type verifyOptions struct {
	readData   string
	remote     string
	repair     bool
	from       []string
	acceptLoss bool
	dryRun     bool
	singleHost bool
	signatures bool
	keyset     string
}

func NewVerify(env *cli.Env) *cobra.Command {
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
objects: kist stores them again when it adds the same content. It also names
files in .kist that this version of kist does not make. They are no damage.

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
index files, and marks the damaged files for gc to delete. If the keys of an
encrypted remote are damaged, it stores them again, from the other copy there,
the copy here, or --keyset FILE. Packs in an archive (see 'kist help thaw') are
counted, and everything else is checked; without damage, the exit status is 3.

--signatures checks no data, but who signed the commits and tags that refs
reach; with --remote, who signed the changes that the remote has had, and no
commits. The exit status is 1 if a signature is not good, or if one is missing
that the remote requires; others without one are counted. See 'kist help sign'.

Content that is only on a remote (see --local-limit in 'kist help backup') is
looked up in the index of the remotes. If one cannot be asked, a warning counts
the unchecked objects: unchecked in JSON.`,
		Example: `  kist verify
  kist verify --read-data
  kist verify --read-data=10% --json
  kist verify --remote origin
  kist verify --repair --dry-run
  kist verify --repair
  kist verify --remote origin --repair
  kist verify --signatures
  kist verify --signatures --remote origin`,
		Args:              cli.NoArguments,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), env) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "", verifyJSON{})
	env.Prints(cmd, "with --remote", remoteVerifyJSON{})
	env.Prints(cmd, "with --remote --repair", remoteRepairJSON{})
	env.Prints(cmd, "with --signatures", signaturesJSON{})
	env.Prints(cmd, "with --signatures --remote", rootSignaturesJSON{})
	cli.OpensRepository(cmd, cli.ExitBusy)
	o.register(cmd, env)
	return cmd
}

func (o *verifyOptions) register(cmd *cobra.Command, env *cli.Env) {
	flags := cmd.Flags()
	flags.BoolVar(&o.repair, "repair", false, "repair damage from intact copies, as far as there are any")
	flags.StringArrayVar(&o.from, "from", nil, "with --repair: take intact copies only from the remote `NAME`")
	flags.BoolVar(&o.acceptLoss, "accept-loss", false, "with --repair: accept the loss of objects that nothing can restore")
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "with --repair: only show what would be done")
	flags.BoolVar(&o.singleHost, "single-host", false, "with --repair: work on a network file system; no other machine may use it now")
	flags.StringVar(&o.readData, "read-data", "", "also read and hash stored content: all of it, or the share `N%|N/T`")
	flags.Lookup("read-data").NoOptDefVal = "100%"
	flags.StringVar(&o.remote, "remote", "", "check the remote `NAME`")
	flags.StringVar(&o.keyset, "keyset", "", "with --remote --repair: take lost keys from `FILE`; see 'kist key export'")
	flags.BoolVar(&o.signatures, "signatures", false, "check only signatures; see 'kist help sign'")
	for _, name := range []string{"remote", "from"} {
		cli.Propose(env, cmd, name, env.Complete(share.Remotes))
	}
	env.Transfer.Register(cmd)
}

// verifyJSON is what verify prints with --json.
type verifyJSON struct {
	Objects int   `json:"objects" doc:"the number of objects that were checked"`
	Bytes   int64 `json:"bytes" doc:"their size as they are stored"`
	Commits int   `json:"commits" doc:"the number of commits that were checked"`
	Healed  int   `json:"healed" doc:"the number of objects with a damaged copy and an intact one"`

	Unchecked int `json:"unchecked" doc:"the number of objects that are only on a remote that could not be asked"`
	Unkept    int `json:"unkept,omitempty" doc:"the number of objects that are only on a remote which does not promise to keep them"`

	Lent    int `json:"lent,omitempty" doc:"the number of objects that are only on a remote and were read in files of the worktree, with --read-data"`
	Changed int `json:"lent_changed,omitempty" doc:"the number of objects that are lent no longer, because the file has changed"`

	Errors []show.ProblemJSON `json:"errors" doc:"the damaged and missing things"`

	Accepted []show.ProblemJSON `json:"accepted" doc:"the accepted losses: with --repair the new ones, else all"`

	Unknown []string `json:"unknown,omitempty" doc:"files in .kist that this version does not make"`

	*repairJSON // with --repair
}

func (o verifyOptions) run(ctx context.Context, env *cli.Env) error {
	check, err := o.shareToRead(env)
	if err := cmp.Or(o.checkOptions(), o.checkKeyset(), err); err != nil {
		return err
	}
	r, err := env.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	exchange.Connect(ctx, r)

	switch {
	case o.signatures && o.remote != "":
		return o.verifyRootSignatures(ctx, env, r)
	case o.signatures:
		return verifySignatures(ctx, env, r)
	case o.remote != "":
		return o.remoteRun(ctx, env, r, check)
	case o.repair:
		return o.runRepair(ctx, env, r)
	}
	return runVerify(ctx, env, r, check)
}

// checkOptions returns an error for options that exclude each other.
func (o verifyOptions) checkOptions() error {
	switch {
	case o.repair && o.remote != "" && (len(o.from) > 0 || o.singleHost || o.acceptLoss):
		return cli.Usagef("--from, --single-host and --accept-loss do not go together with --remote")
	case o.repair && o.readData != "" && o.readData != "100%":
		return cli.Usagef("--repair reads everything: --read-data takes no share with it")
	case o.signatures && (o.repair || o.readData != ""):
		return cli.Usagef("--signatures does not go together with --repair and --read-data")
	case !o.repair && (len(o.from) > 0 || o.dryRun || o.singleHost || o.acceptLoss):
		return cli.Usagef("--from, --dry-run, --single-host and --accept-loss need --repair")
	}
	return nil
}

// checkKeyset returns an error if --keyset has nothing to restore.
func (o verifyOptions) checkKeyset() error {
	if o.keyset != "" && (!o.repair || o.remote == "") {
		return cli.Usagef("--keyset needs --remote and --repair")
	}
	return nil
}

// runVerify checks the repository.
func runVerify(ctx context.Context, env *cli.Env, r *kist.Repository, check volume.CheckOptions) error {
	at := newVerifyProgress(ctx, env, r, check)
	defer at.stopProgress()
	check.Progress = at.showChecking
	cli.WarnReadable(env, r)

	report, err := repair.Verify(ctx, r, gc.VerifyOptions{Volumes: check, Progress: at.showFollowing})
	at.stopProgress()
	if err != nil {
		return err
	}
	lost, err := r.Objects().Lost(ctx)
	if err != nil {
		return err
	}

	out := newVerifyJSON(report)
	if env.Global.JSON {
		for _, key := range lost {
			out.Accepted = append(out.Accepted, show.NewProblemJSON(&gc.Problem{Key: key, Err: &object.AbsentError{Key: key}}))
		}
		env.JSON(out)
	} else {
		show.PrintProblems(ctx, env, r, out.Errors)
		warnUnchecked(env, report)
		if report.Lent.Objects > 0 {
			env.Info("%s read in files of the worktree", readable.Plural(uint64(report.Lent.Objects), "object was", "objects were"))
		}
		if report.Lent.Changed > 0 {
			env.Info("%s lent no longer: the files have changed, and a remote keeps the content", readable.Plural(uint64(report.Lent.Changed), "object is", "objects are"))
		}
		if out.Healed > 0 {
			env.Info("%s damaged, but another copy is intact", readable.Plural(uint64(out.Healed), "stored object is", "stored objects are"))
		}
		for _, line := range cli.FirstOf(report.Unknown, show.ShownProblems, " files", func(file string) string { return cli.QuotePath(cli.RepositoryFile(r, file)) }) {
			env.Info("unknown file, not made by this version of kist: %s", line)
		}
		for _, key := range lost {
			env.PrintOutcome("accepted as lost: %s %s\n", key.Kind, key.ID)
		}
		if len(out.Errors) == 0 {
			env.PrintOutcome("no errors found: %s, %s read; %s\n", readable.Plural(uint64(report.Objects), "object", "objects"),
				readable.FormatSize(uint64(report.Bytes)), readable.Plural(uint64(report.Commits), "commit", "commits"))
		}
	}
	if onlyNewer(report.Problems) {
		return newerError(env, len(out.Errors))
	}
	return show.DamageFound(env, len(out.Errors), "thing is damaged or missing", "things are damaged or missing", show.ProblemHints(out.Errors))
}

// onlyNewer reports whether all problems are files or objects of a newer program.
func onlyNewer(problems []*gc.Problem) bool {
	for _, p := range problems {
		if !errors.Is(p.Err, object.ErrNewerFormat) {
			return false
		}
	}
	return len(problems) > 0
}

// newerError returns the error for n things of a newer program. It has printed them.
func newerError(env *cli.Env, n int) error {
	if env.Global.JSON {
		return cli.Quiet(cli.ExitFormat)
	}
	return fmt.Errorf("%s in a %w", readable.Plural(uint64(n), "thing is", "things are"), object.ErrNewerFormat)
}

// warnUnchecked warns of objects that are only on a remote, and were not looked for there.
func warnUnchecked(env *cli.Env, report *gc.Report) {
	if report.Unkept > 0 {
		env.Warn("%s only on a remote, and no keep ref of this repository is there", readable.Plural(uint64(report.Unkept), "object is", "objects are"))
		env.Info("hint: the next push makes the remote keep it, or 'kist verify --repair' brings it here'")
	}
	if report.Unchecked == 0 {
		return
	}
	reason := ""
	if report.Why != nil {
		reason = ": " + env.Secrets.Hide(report.Why.Error())
	}
	env.Warn("not checked: %s only on a remote%s", readable.Plural(uint64(report.Unchecked), "object that is", "objects that are"), reason)
}

func newVerifyJSON(report *gc.Report) verifyJSON {
	return verifyJSON{
		Objects: report.Objects, Bytes: report.Bytes, Commits: report.Commits, Healed: len(report.Healed), Unchecked: report.Unchecked, Unkept: report.Unkept,
		Lent: report.Lent.Objects, Changed: report.Lent.Changed,
		Errors: show.NewProblemsJSON(report.Problems, show.NewProblemJSON), Accepted: []show.ProblemJSON{},
		Unknown: report.Unknown,
	}
}

// shareToRead returns the share of the stored data to read.
func (o verifyOptions) shareToRead(env *cli.Env) (volume.CheckOptions, error) {
	bad := cli.Usagef("--read-data %s is neither a share as in 5%% nor a part as in 2/7", cli.QuoteArg(o.readData))
	if o.readData == "" {
		return volume.CheckOptions{}, nil
	}
	check := volume.CheckOptions{ReadData: true}
	if strings.HasSuffix(o.readData, "%") {
		share, err := kist.ParseShare(o.readData)
		if err != nil {
			return check, bad
		}
		if share < 1 {
			check.Subset, err = randomShare(env.Random, share)
		}
		return check, err
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

// randomShare returns a function that is true for about a share of all numbers, and for
// other numbers with each seed.
func randomShare(seeds io.Reader, share float64) (func(i, n int) bool, error) {
	var seed [8]byte
	_, err := io.ReadFull(seeds, seed[:])
	start, limit := binary.BigEndian.Uint64(seed[:]), uint64(share*math.MaxUint64)
	return func(i, _ int) bool { return rand.NewPCG(start, uint64(i)).Uint64() < limit }, err
}
