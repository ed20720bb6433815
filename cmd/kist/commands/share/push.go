// Package share has the commands that bring commits to remotes and back.
package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

type pushOptions struct {
	exchange.PushOptions
	all, tags, delete, force, prune bool
}

func NewPush(env *cli.Env) *cobra.Command {
	var o pushOptions
	cmd := &cobra.Command{
		Use:   "push [OPTIONS] [REMOTE [REF...]]",
		Short: "upload commits to a remote and move its branches",
		Long: `Uploads the commits that REMOTE lacks, and moves its branches and tags: all of
them or none. Without a REF, pushes the current branch to the branch of the same
name. If its upstream has another name, push refuses. Without a REMOTE, pushes
to the remote of the upstream, or to origin. The first push of a branch sets its
upstream.

REF is a branch or tag. SOURCE:NAME pushes the revision SOURCE under another
name, and :NAME deletes NAME. + in front means --force for this REF.

A push that is not a fast-forward would lose commits of others: it moves nothing
and ends with status 13. Run 'kist pull' first. Any number of people can push at
once.

The push also sends expirations, holds and similar records of commits that the
remote has.

If a push finds many small packs or index files on the remote, it merges some of
them, so that clones need fewer requests. 'kist config push.merge false'
prevents that. The old files stay until 'kist remote gc' deletes them.

An object whose loss was accepted ('kist verify --repair --accept-loss') is left
out. The push names it, and so does each fetch that needs it. --all and --tags
leave out branches and tags at a lost commit. The exit status is 3 then.

An interrupted push can be run again: it continues. If the connection breaks
while the branches are moved, the result may be unknown: then the status is 15,
and the next push or fetch shows whether they moved.

On a remote with --object-lock, each push renews the locks of the files in use,
even if there is nothing to send.`,
		Example: `  kist push                        the current branch
  kist push origin main v1.0       a branch and a tag
  kist push --all --tags           all there are
  kist push origin HEAD:refs/heads/x  the current commit, as branch x
  kist push origin --delete topic  delete a branch there
  kist push --force-with-lease     replace it, unless others have pushed since`,
		ValidArgsFunction: cli.CompleteNth(env.Complete(Remotes), env.Complete(cli.Branches, cli.Tags)),
	}
	env.Prints(cmd, "", show.TransferJSON{})
	env.InRepository(cmd, o.run, cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "push all branches")
	flags.BoolVar(&o.tags, "tags", false, "push all tags, too")
	flags.BoolVarP(&o.delete, "delete", "d", false, "delete the REFs on the remote")
	flags.BoolVarP(&o.force, "force", "f", false, "move branches and tags even if the remote loses commits")
	flags.BoolVar(&o.Lease, "force-with-lease", false, "like --force, but only if nobody moved them since your last fetch")
	flags.BoolVarP(&o.SetUpstream, "set-upstream", "u", false, "make each branch follow the one it is pushed to")
	flags.BoolVar(&o.FollowTags, "follow-tags", false, "push annotated tags of the pushed commits, too")
	flags.BoolVar(&o.prune, "prune", false, "with --all or --tags: delete the ones that do not exist here")
	flags.Bool("atomic", true, "move all refs or none: kist always does")
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "only show what would be sent and moved")
	env.Transfer.RegisterJobs(cmd)
	cmd.MarkFlagsMutuallyExclusive("all", "delete")
	cmd.MarkFlagsMutuallyExclusive("tags", "delete")
	cmd.MarkFlagsMutuallyExclusive("force", "force-with-lease")
	return cmd
}

func (o *pushOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	lost := cli.NewLosses()
	if err := o.chooseRefs(ctx, env, r, args, lost); err != nil {
		return err
	}

	p := env.Progress("pushing")
	defer p.Stop()
	o.Progress, o.Jobs = p.Transferred(), env.Transfer.Jobs
	result, err := exchange.Push(ctx, r, o.PushOptions)
	p.Stop()

	rejected := errors.Is(err, transfer.ErrNotFastForward) // then the result has the refs
	if err == nil || rejected && !env.Global.JSON {
		if perr := printPushed(ctx, env, r, o.PushOptions, result); perr != nil {
			return perr
		}
	}
	if err != nil || o.DryRun {
		return cmp.Or(PushFailed(r, o.PushOptions, result, err), lost.Err())
	}
	if evicted, err := exchange.EvictDue(ctx, r); err != nil {
		env.Warn("pushed, but no content was given away: %v", err)
	} else if evicted != nil {
		if evicted.Chunks > 0 {
			PrintEvicted(env, r, evicted, false)
		}
		limit, _ := exchange.LocalLimit(r)
		WarnSmall(env, evicted, limit)
	}
	env.Maintain(r)
	for _, ref := range result.Refs {
		if ref.Old.IsZero() && ref.New.IsZero() {
			return cli.Failf(cli.ExitFailed, "unknown-ref", "%s is not on %s: nothing to delete", cli.QuoteArg(cli.ShortRef(ref.Name)), cli.QuoteArg(o.Remote))
		}
	}
	return cmp.Or(LocksFailed(result), lost.Err())
}

// chooseRefs sets the refs to push, and the remote. It adds refs that are left out to lost.
func (o *pushOptions) chooseRefs(ctx context.Context, env *cli.Env, r *kist.Repository, args []string, lost *cli.Losses) error {
	name := ""
	var err error
	if len(args) > 0 {
		if name, err = RemoteOrURL(env, r, args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	if o.Refs, err = o.namedRefs(ctx, r, args, lost); err != nil {
		return err
	}

	switch {
	case len(o.Refs) > 0:
		o.Remote, err = RemoteOrURL(env, r, name)
		return err
	case o.delete:
		return cli.Usagef("the name of the branch to delete is missing")
	case o.all || o.tags:
		return cmp.Or(lost.Err(), cli.Failf(cli.ExitFailed, "nothing-to-push", "nothing to push"))
	}

	var ref registry.PushRef
	ref, o.Remote, err = registry.PushTarget(ctx, r, name)
	ref.Force = o.force
	o.Refs = []registry.PushRef{ref}
	return err
}

// PrintEvicted prints how much content was given away. It warns if a remote that keeps it is no second place.
func PrintEvicted(env *cli.Env, r *kist.Repository, e *exchange.EvictResult, dryRun bool) {
	if e.Chunks == 0 {
		env.PrintOutcome("nothing to do\n")
		return
	}
	env.PrintOutcome("%s %s in %s, kept by %s; %s left here\n", cli.Would(dryRun, "gave away", "give away"),
		readable.FormatSize(uint64(e.Bytes)), readable.Plural(uint64(e.Chunks), "chunk", "chunks"),
		cli.Printable(strings.Join(e.Remotes, " and ")), readable.FormatSize(uint64(e.Left)))
	for _, name := range e.Remotes {
		if registry.IsOnSameDisk(r, name) {
			env.Warn("%s is on the same disk as this repository: if the disk breaks, the content is lost", cli.Printable(name))
		}
	}
}

// WarnSmall warns that the content of small files exceeds a limit, in bytes.
func WarnSmall(env *cli.Env, e *exchange.EvictResult, limit int64) {
	if limit > 0 && e.Left > limit && e.Small > 0 {
		env.Warn("%s are left here, more than %s: content of files below 1 MiB is given away only by 'kist evict PATH'",
			readable.FormatSize(uint64(e.Left)), readable.FormatSize(uint64(limit)))
	}
}

// LocksFailed returns the error of a push that did not renew all locks.
func LocksFailed(result *exchange.PushResult) error {
	if result.LockErr == nil {
		return nil
	}
	return cli.Hintf(fmt.Errorf("pushed, but some files of the remote are not locked for long enough: %w", result.LockErr), "the next push tries again; see 'kist help immutable'")
}

// PushFailed adds advice to the error of a push.
func PushFailed(r *kist.Repository, push exchange.PushOptions, result *exchange.PushResult, err error) error {
	switch rejected := errors.Is(err, transfer.ErrNotFastForward); {
	case rejected && onlyTags(result.Refs):
		return cli.Hintf(err, "'kist fetch' shows the tag there; --force replaces it")
	case rejected && r.IsBare():
		return cli.Hintf(err, "'kist fetch' brings what others have pushed; nothing can be merged here: push to a branch of your own")
	case rejected:
		return cli.Hintf(err, "'%s' brings what others have pushed; then push again", pullOf(r, push, result))
	case errors.Is(err, rootlog.ErrEmpty) && !hasName(r, push.Remote):
		return cli.Hintf(cli.Failf(cli.ExitRemote, "empty", "%w", err), "a new store gets a name first, and is checked: kist remote add NAME %s", cli.Printable(remote.Redact(push.Remote)))
	case errors.Is(err, remote.ErrNoStore) && hasName(r, push.Remote) && !wasUsed(r, push.Remote):
		if m, rerr := registry.Find(r, push.Remote); rerr == nil && !cli.IsURL(m.URL) {
			return cli.Hintf(err, "'kist remote check %s' makes the folder of a new remote", cli.Printable(push.Remote))
		}
	}
	return err
}

// hasName reports whether text is the name of a remote, and not a URL.
func hasName(r *kist.Repository, text string) bool {
	m, err := registry.Resolve(r, text)
	return err == nil && m.Name != ""
}

// wasUsed reports whether something was pushed to a remote, or fetched from it, before.
func wasUsed(r *kist.Repository, name string) bool {
	list, err := r.Refs().List(refs.Remotes + name + "/")
	return err != nil || len(list) > 0
}

// onlyTags reports whether all refs that were rejected are tags.
func onlyTags(list []transfer.RefResult) bool {
	return !slices.ContainsFunc(list, func(r transfer.RefResult) bool {
		return r.Err != nil && !strings.HasPrefix(r.Name, refs.Tags)
	})
}

// pullOf returns the command that brings what stands in the way of a push.
func pullOf(r *kist.Repository, o exchange.PushOptions, result *exchange.PushResult) string {
	for _, ref := range result.Refs {
		branch, ok := strings.CutPrefix(ref.Name, refs.Heads)
		if ref.Err == nil || !ok {
			continue
		}
		local := ""
		for _, pushed := range o.Refs {
			if pushed.Name == ref.Name {
				local, _ = refs.BranchOf(pushed.Source)
			}
		}
		if upstream, err := kist.UpstreamOf(r, local); err == nil && upstream == (kist.Upstream{Remote: o.Remote, Ref: ref.Name}) {
			break
		}
		return "kist pull " + cli.Printable(o.Remote) + " " + cli.Printable(branch)
	}
	return "kist pull"
}

// namedRefs returns the refs that the arguments and options of push name. --all and --tags
// leave out names of lost commits, which it adds to lost.
func (o *pushOptions) namedRefs(ctx context.Context, r *kist.Repository, args []string, lost *cli.Losses) ([]registry.PushRef, error) {
	var list []registry.PushRef
	for _, arg := range args {
		if o.delete {
			if strings.ContainsAny(arg, ":+") {
				return nil, cli.Usagef("--delete takes names, not %s", cli.QuoteArg(arg))
			}
			arg = ":" + arg
		}
		ref, err := registry.ParsePush(ctx, r, arg)
		if err != nil {
			return nil, err
		}
		list = append(list, ref)
	}
	var prefixes []string
	if o.prune && !o.all && !o.tags {
		return nil, cli.Usagef("--prune needs --all or --tags: it deletes only refs that would be pushed if they were here")
	}
	if o.all {
		prefixes = append(prefixes, refs.Heads)
	}
	if o.tags {
		prefixes = append(prefixes, refs.Tags)
	}

	if o.prune {
		o.Prune = prefixes
	}
	for _, prefix := range prefixes {
		all, err := r.Refs().List(prefix)
		if err != nil {
			return nil, err
		}
		for _, ref := range all {
			if lost.IsTipLost(ctx, r, ref.Name) {
				continue
			}
			p, err := registry.ParsePush(ctx, r, ref.Name)
			if err != nil {
				return nil, err
			}
			list = append(list, p)
		}
	}

	for i := range list {
		list[i].Force = list[i].Force || o.force
	}
	return list, nil
}

// RemoteOrURL is remoteArg for commands that also take a URL or a folder. A name that is
// both a remote and a folder is the remote. The path of a folder becomes absolute.
func RemoteOrURL(e *cli.Env, r *kist.Repository, text string) (string, error) {
	if text == "" {
		return RemoteArg(e, r, "")
	}
	_, err := registry.Find(r, text)
	if !errors.Is(err, kist.ErrNoRemote) || !IsPlace(e, text) {
		return text, err
	}
	return e.RemoteURL(text)
}

// IsPlace reports whether text, which is no remote's name, is a URL or a path.
func IsPlace(e *cli.Env, text string) bool {
	if strings.ContainsAny(text, "/:") || text == "." || text == ".." {
		return true
	}
	info, err := os.Stat(e.Path(text))
	return err == nil && info.IsDir()
}

// RemoteArg returns the remote that an argument names, or, if there is none,
// the default one.
func RemoteArg(e *cli.Env, r *kist.Repository, name string) (string, error) {
	if name == "" {
		return registry.Default(r)
	}
	_, err := registry.Find(r, name)
	if errors.Is(err, kist.ErrNoRemote) && strings.ContainsAny(name, "/:") {
		return "", cli.Hintf(cli.Failf(cli.ExitFailed, "no-remote", "%w", err), "a remote gets a name first: kist remote add NAME %s", remote.Redact(name))
	}
	return name, err
}

// OpenRemote opens the remote that an argument names, to read it. The caller
// closes the remote.
func OpenRemote(ctx context.Context, env *cli.Env, r *kist.Repository, name string) (*transfer.Remote, error) {
	name, err := RemoteArg(env, r, name)
	if err != nil {
		return nil, err
	}
	return registry.OpenNamed(ctx, r, name)
}

// printPushed prints the result of a push.
func printPushed(ctx context.Context, env *cli.Env, r *kist.Repository, o exchange.PushOptions, result *exchange.PushResult) error {
	if env.Global.JSON {
		out := show.TransferJSON{
			Refs: []show.RefMove{}, Objects: result.Objects, Records: result.Records, Sent: &result.Bytes, Lost: show.NewLostJSON(result.Lost),
		}
		for _, ref := range result.Refs {
			out.Refs = append(out.Refs, show.NewRefMove(ref.Name, "", ref.Old, ref.New, ref.Status))
		}
		out.Locks = show.NewLocksJSON(result.Locks)
		env.JSON(out)
		return nil
	}
	sources := map[string]string{}
	for _, ref := range o.Refs {
		sources[ref.Name] = ref.Source
	}
	moved := 0
	for _, ref := range result.Refs {
		if ref.Status != transfer.StatusUpToDate {
			moved++
		}
	}
	if moved == 0 && result.Records == 0 && len(result.Found) == 0 {
		if slices.ContainsFunc(o.Refs, func(ref registry.PushRef) bool { return ref.Source == "" }) {
			return nil // a missing ref is an error, which comes next
		}
		env.PrintOutcome("Everything up to date.\n")
	} else {
		m, err := registry.Resolve(r, o.Remote)
		if err != nil {
			return err
		}
		env.PrintOutcome("To %s\n", cli.Printable(remote.Redact(m.URL)))
	}

	for _, ref := range result.Refs {
		if ref.Status == transfer.StatusUpToDate && !env.Global.Verbose {
			continue
		}
		source := sources[ref.Name]
		if ref.New.IsZero() || source == "" {
			source = ref.Name
		}
		show.NewRefMove(ref.Name, "", ref.Old, ref.New, ref.Status).Tell(env, source, ref.Name)
	}
	verb := "sent"
	if o.DryRun {
		verb = "would be sent:"
	}
	show.TellTransferred(env, verb, result.Objects, result.Bytes, result.Records)
	show.PrintLost(ctx, env, r, o.Remote, result.Lost)
	show.TellLocks(env, result.Locks)
	for _, key := range result.Found {
		env.PrintOutcome("no longer lost: %s %s\n", key.Kind, key.ID)
	}

	for _, branch := range slices.Sorted(maps.Keys(result.Upstreams)) {
		show.TellUpstream(env, branch, result.Upstreams[branch].Short())
	}
	return nil
}
