package cli

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

func newPush(env *Env) *cobra.Command {
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
even if there is nothing to send.

With --json: refs (name, old, new, status: new, fast-forward, forced, deleted,
up to date), objects, bytes_sent, records (how many were sent); lost (objects
that were left out, as the errors of verify, and who accepted the loss); and
locks (files, renewed, until: when the first lock ends).`,
		Example: `  kist push                        the current branch
  kist push origin main v1.0       a branch and a tag
  kist push --all --tags           all there are
  kist push origin HEAD:refs/heads/x  the current commit, as branch x
  kist push origin --delete topic  delete a branch there
  kist push --force-with-lease     replace it, unless others have pushed since`,
		ValidArgsFunction: completeNth(env.complete(remotes), env.complete(branches, tags)),
	}
	env.inRepository(cmd, o.run, exitPartial, exitMoved, exitBusy)
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
	env.transfer.registerJobs(cmd)
	cmd.MarkFlagsMutuallyExclusive("all", "delete")
	cmd.MarkFlagsMutuallyExclusive("tags", "delete")
	cmd.MarkFlagsMutuallyExclusive("force", "force-with-lease")
	return cmd
}

func (o *pushOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	lost := newLosses()
	if err := o.choose(ctx, env, r, args, lost); err != nil {
		return err
	}

	p := env.progress("pushing")
	defer p.Stop()
	o.Progress, o.Jobs = p.transferred(), env.transfer.jobs
	result, err := exchange.Push(ctx, r, o.PushOptions)
	p.Stop()

	rejected := errors.Is(err, transfer.ErrNotFastForward) // then the result has the refs
	if err == nil || rejected && !env.global.json {
		if perr := printPushed(ctx, env, r, o.PushOptions, result); perr != nil {
			return perr
		}
	}
	if err != nil || o.DryRun {
		return cmp.Or(pushFailed(r, o.PushOptions, result, err), lost.err())
	}
	env.maintain(r)
	for _, ref := range result.Refs {
		if ref.Old.IsZero() && ref.New.IsZero() {
			return failf(exitFailed, "unknown-ref", "%s is not on %s: nothing to delete", quoteArg(shortRef(ref.Name)), quoteArg(o.Remote))
		}
	}
	return cmp.Or(locksFailed(result), lost.err())
}

// choose sets the refs to push, and the remote. It adds refs that are left out to lost.
func (o *pushOptions) choose(ctx context.Context, env *Env, r *kist.Repository, args []string, lost *losses) error {
	name := ""
	var err error
	if len(args) > 0 {
		if name, err = remoteOrURL(env, r, args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	if o.Refs, err = o.refs(ctx, r, args, lost); err != nil {
		return err
	}

	switch {
	case len(o.Refs) > 0:
		o.Remote, err = remoteOrURL(env, r, name)
		return err
	case o.delete:
		return usagef("the name of the branch to delete is missing")
	case o.all || o.tags:
		return cmp.Or(lost.err(), failf(exitFailed, "nothing-to-push", "nothing to push"))
	}

	var ref registry.PushRef
	ref, o.Remote, err = registry.PushTarget(ctx, r, name)
	ref.Force = o.force
	o.Refs = []registry.PushRef{ref}
	return err
}

// locksFailed returns the error of a push that did not renew all locks.
func locksFailed(result *exchange.PushResult) error {
	if result.LockErr == nil {
		return nil
	}
	return hintf(fmt.Errorf("pushed, but some files of the remote are not locked for long enough: %w", result.LockErr), "the next push tries again; see 'kist help immutable'")
}

// pushFailed adds advice to the error of a push.
func pushFailed(r *kist.Repository, push exchange.PushOptions, result *exchange.PushResult, err error) error {
	switch rejected := errors.Is(err, transfer.ErrNotFastForward); {
	case rejected && onlyTags(result.Refs):
		return hintf(err, "'kist fetch' shows the tag there; --force replaces it")
	case rejected && r.IsBare():
		return hintf(err, "'kist fetch' brings what others have pushed; nothing can be merged here: push to a branch of your own")
	case rejected:
		return hintf(err, "'%s' brings what others have pushed; then push again", pullOf(r, push, result))
	case errors.Is(err, rootlog.ErrEmpty) && !hasName(r, push.Remote):
		return hintf(failf(exitRemote, "empty", "%w", err), "a new store gets a name first, and is checked: kist remote add NAME %s", printable(remote.Redact(push.Remote)))
	case errors.Is(err, remote.ErrNoStore) && hasName(r, push.Remote) && !wasUsed(r, push.Remote):
		if m, rerr := registry.Find(r, push.Remote); rerr == nil && !isURL(m.URL) {
			return hintf(err, "'kist remote check %s' makes the folder of a new remote", printable(push.Remote))
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
		return "kist pull " + printable(o.Remote) + " " + printable(branch)
	}
	return "kist pull"
}

// refs returns the refs that the arguments and options of push name. --all and --tags
// leave out names of lost commits, which it adds to lost.
func (o *pushOptions) refs(ctx context.Context, r *kist.Repository, args []string, lost *losses) ([]registry.PushRef, error) {
	var list []registry.PushRef
	for _, arg := range args {
		if o.delete {
			if strings.ContainsAny(arg, ":+") {
				return nil, usagef("--delete takes names, not %s", quoteArg(arg))
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
		return nil, usagef("--prune needs --all or --tags: it deletes only refs that would be pushed if they were here")
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
			if lost.tip(ctx, r, ref.Name) {
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

// remoteOrURL is remoteArg for commands that also take a URL or a folder. A name that is
// both a remote and a folder is the remote. The path of a folder becomes absolute.
func remoteOrURL(e *Env, r *kist.Repository, text string) (string, error) {
	if text == "" {
		return e.remoteArg(r, "")
	}
	_, err := registry.Find(r, text)
	if !errors.Is(err, kist.ErrNoRemote) || !isPlace(e, text) {
		return text, err
	}
	return e.remoteURL(text)
}

// isPlace reports whether text, which is no remote's name, is a URL or a path.
func isPlace(e *Env, text string) bool {
	if strings.ContainsAny(text, "/:") || text == "." || text == ".." {
		return true
	}
	info, err := os.Stat(e.path(text))
	return err == nil && info.IsDir()
}

// remoteArg returns the remote that an argument names, or, if there is none,
// the default one.
func (e *Env) remoteArg(r *kist.Repository, name string) (string, error) {
	if name == "" {
		return registry.Default(r)
	}
	_, err := registry.Find(r, name)
	if errors.Is(err, kist.ErrNoRemote) && strings.ContainsAny(name, "/:") {
		return "", hintf(failf(exitFailed, "no-remote", "%w", err), "a remote gets a name first: kist remote add NAME %s", remote.Redact(name))
	}
	return name, err
}

// openRemote opens the remote that an argument names, to read it. The caller
// closes the remote.
func openRemote(ctx context.Context, env *Env, r *kist.Repository, name string) (*transfer.Remote, error) {
	name, err := env.remoteArg(r, name)
	if err != nil {
		return nil, err
	}
	return registry.OpenNamed(ctx, r, name)
}

// printPushed prints the result of a push.
func printPushed(ctx context.Context, env *Env, r *kist.Repository, o exchange.PushOptions, result *exchange.PushResult) error {
	if env.global.json {
		out := transferJSON{
			Refs: []refMove{}, Objects: result.Objects, Records: result.Records, Sent: &result.Bytes, Lost: newLostJSON(result.Lost),
		}
		for _, ref := range result.Refs {
			out.Refs = append(out.Refs, newRefMove(ref.Name, "", ref.Old, ref.New, ref.Status))
		}
		out.Locks = newLocksJSON(result.Locks)
		env.json(out)
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
		env.tell("Everything up to date.\n")
	} else {
		m, err := registry.Resolve(r, o.Remote)
		if err != nil {
			return err
		}
		env.tell("To %s\n", printable(remote.Redact(m.URL)))
	}

	for _, ref := range result.Refs {
		if ref.Status == transfer.StatusUpToDate && !env.global.verbose {
			continue
		}
		source := sources[ref.Name]
		if ref.New.IsZero() || source == "" {
			source = ref.Name
		}
		newRefMove(ref.Name, "", ref.Old, ref.New, ref.Status).tell(env, source, ref.Name)
	}
	verb := "sent"
	if o.DryRun {
		verb = "would be sent:"
	}
	tellTransferred(env, verb, result.Objects, result.Bytes, result.Records)
	printLost(ctx, env, r, o.Remote, result.Lost)
	tellLocks(env, result.Locks)
	for _, key := range result.Found {
		env.tell("no longer lost: %s %s\n", key.Kind, key.ID)
	}

	for _, branch := range slices.Sorted(maps.Keys(result.Upstreams)) {
		tellUpstream(env, branch, result.Upstreams[branch].Short())
	}
	return nil
}
