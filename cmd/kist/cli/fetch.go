package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/tracking"
)

type fetchOptions struct {
	all    bool
	noTags bool
	force  bool
	prune  bool
	dryRun bool
	waits  tracking.Decision
}

func newFetch(env *Env) *cobra.Command {
	var o fetchOptions
	cmd := &cobra.Command{
		Use:   "fetch [OPTIONS] [REMOTE [BRANCH...]]",
		Short: "download commits from a remote",
		Long: `Downloads new commits from REMOTE: all branches or only the BRANCHes, and the
tags. The default is the remote that the current branch follows, or else origin.
No branch moves and no file changes: kist records the remote's branches as
REMOTE/BRANCH, such as origin/main. You can merge, compare and show these. 'kist
pull' fetches and merges.

All received data is checked against its hash before it is stored. An
interrupted fetch can be run again: it continues.

Holds, expirations and purges of other people are fetched too, and listed with
the name that they signed with. A purge waits if HEAD, the index, or a local
branch, tag or hold needs the content. The end of your own hold waits, too. A
waiting record has no effect here until you decide. --records accept accepts all
waiting records. --records refuse revokes them, for everybody after your next
push. The key records.accept decides for all fetches: ask (the default), always
(nothing waits), or never (every record waits that would remove content here,
expirations too).

If the remote lacks an object because somebody accepted its loss, the fetch
names both, and accepts the loss here (unless records.accept is never). Objects
that are lost here, but intact on the remote, are downloaded.

With --json: refs (name, local, old, new, status: new, fast-forward, forced,
deleted, up to date, kept; with --dry-run also moved, if only the download can
show how), objects, bytes_received, records (how many were merged), news
(records of others: record, kind, id, on, time, who, host, reason, needed,
waits), and lost (as the errors of verify, and who accepted the loss).`,
		Example: `  kist fetch
  kist fetch --prune origin
  kist log HEAD..origin/main       what is new there`,
		ValidArgsFunction: completeNth(env.complete(remotes), cobra.NoFileCompletions),
	}
	env.inRepository(cmd, o.run, exitMoved, exitBusy)
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "fetch from all remotes")
	flags.BoolVar(&o.noTags, "no-tags", false, "do not fetch tags")
	flags.BoolVarP(&o.force, "force", "f", false, "replace local tags that differ")
	flags.BoolVarP(&o.prune, "prune", "p", false, "remove remote-tracking branches that the remote no longer has")
	flags.Var((*decisionValue)(&o.waits), "records", "decide on waiting records: `DECISION` is accept or refuse")
	must(cmd.RegisterFlagCompletionFunc("records", cobra.FixedCompletions([]string{"accept", "refuse"}, cobra.ShellCompDirectiveNoFileComp)))
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "only show what would be moved")
	env.transfer.registerJobs(cmd)
	return cmd
}

func (o *fetchOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	if o.all && len(args) > 0 {
		return usagef("--all and %s cannot be given both", quoteArg(args[0]))
	}
	fetch := tracking.FetchOptions{NoTags: o.noTags, Force: o.force, Prune: o.prune, Waiting: o.waits, DryRun: o.dryRun, Jobs: env.transfer.jobs}
	if o.all {
		for _, m := range registry.All(r) {
			fetch.Remote = m.Name
			if err := env.fetch(ctx, r, fetch); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if fetch.Remote, err = env.fetchRemote(r, args); err != nil {
		return err
	}
	for _, branch := range args[min(1, len(args)):] {
		fetch.Branches = append(fetch.Branches, strings.TrimPrefix(branch, refs.Heads))
	}
	return env.fetch(ctx, r, fetch)
}

// fetchRemote returns the name of the remote that the first of args names;
// without any, of the one that the current branch follows, or else origin.
func (e *Env) fetchRemote(r *kist.Repository, args []string) (string, error) {
	if len(args) > 0 {
		return e.remoteArg(r, args[0])
	}
	if head, err := r.Refs().Head(); err == nil && head.Branch != "" {
		if upstream, err := registry.UpstreamOf(r, head.Branch); err == nil {
			return upstream.Remote, nil
		}
	}
	return e.remoteArg(r, "")
}

// fetch fetches from a remote and prints the result.
func (e *Env) fetch(ctx context.Context, r *kist.Repository, o tracking.FetchOptions) error {
	p := e.progress("fetching")
	defer p.Stop()
	o.Progress = p.transferred()
	result, err := tracking.Fetch(ctx, r, o)
	p.Stop()
	if errors.Is(err, refs.ErrConflict) && !o.Prune {
		err = hintf(err, "if the remote no longer has it, 'kist fetch --prune %s' removes it here", quoteArg(o.Remote))
	}
	if err != nil {
		return err
	}
	if e.global.json {
		return e.json(newFetchJSON(result))
	}
	m, err := registry.Find(r, o.Remote)
	if err != nil {
		return err
	}
	e.printFetched(ctx, r, m, o, result)
	if !o.DryRun {
		e.maintain(r)
	}
	return nil
}

// fetchedStatus returns in a word what became of a ref.
func fetchedStatus(f tracking.FetchedRef) string {
	switch {
	case f.Kept:
		return "kept"
	case f.Old == f.New:
		return "up to date"
	case f.Old.IsZero():
		return "new"
	case f.New.IsZero():
		return "deleted"
	case f.Unsure:
		return "moved"
	case f.Forced || strings.HasPrefix(f.Local, refs.Tags):
		return "forced"
	}
	return "fast-forward"
}

func newFetchJSON(result *tracking.FetchResult) transferJSON {
	out := transferJSON{Refs: []refMoveJSON{}, Objects: result.Objects, Records: result.Records, Received: &result.Bytes, News: newReceivedJSON(result.Received), Lost: newLostJSON(result.Lost)}
	for _, f := range result.Refs {
		out.Refs = append(out.Refs, newRefMoveJSON(f.Name, f.Local, f.Old, f.New, fetchedStatus(f)))
	}
	return out
}

// printFetched prints the result of a fetch.
func (e *Env) printFetched(ctx context.Context, r *kist.Repository, m registry.Remote, o tracking.FetchOptions, result *tracking.FetchResult) {
	first := true
	for _, f := range result.Refs {
		status := fetchedStatus(f)
		if status == "up to date" && !e.global.verbose {
			continue
		}
		if first {
			e.tell("From %s\n", printable(remote.Redact(m.URL)))
			first = false
		}
		if status == "kept" {
			e.warn("tag %s is different on %s; --force replaces yours", quoteArg(shortRef(f.Local)), quoteArg(m.Name))
			continue
		}
		e.tellMoved(f.Name, f.Local, f.Old, f.New, status)
	}
	e.tellTransferred("received", result.Objects, result.Bytes, result.Records)
	o.Remote = m.Name
	e.printReceived(o, result)
	e.printLost(ctx, r, m.Name, result.Lost)
}

// receivedJSON is a record as fetch prints it with --json.
type receivedJSON struct {
	Record string    `json:"record"` // hold, expire or purge
	Kind   string    `json:"kind"`   // of the object
	ID     object.ID `json:"id"`
	On     bool      `json:"on"`
	Time   time.Time `json:"time"`
	Who    string    `json:"who"`
	Host   string    `json:"host"`
	Reason string    `json:"reason"`
	Needed []string  `json:"needed"` // what names the object here, or has it
	Waits  bool      `json:"waits"`
}

func newReceivedJSON(list []tracking.ReceivedRecord) []receivedJSON {
	out := []receivedJSON{}
	for _, r := range list {
		out = append(out, receivedJSON{
			string(r.Kind), r.Key.Kind.String(), r.Key.ID, r.On, r.Time, r.Who, r.Host, r.Reason, append([]string{}, r.Needed...), r.Waits,
		})
	}
	return out
}

// How much fetch shows of what others have recorded; --json has all.
const (
	shownReceived    = 20 // groups of records
	shownReceivedIDs = 3  // objects of a group
)

// printReceived prints the records of others: the action, by whom, why, and the
// local names that need the objects. Records that are equal except for their object
// are one group.
func (e *Env) printReceived(o tracking.FetchOptions, result *tracking.FetchResult) {
	type group struct {
		what, by string
		ids      []string
	}
	var groups []*group
	places := map[[2]string]*group{}
	waits := 0
	for _, r := range result.Received {
		what, by := receivedWhat(&r), receivedBy(&r)
		if r.Waits {
			waits++
		}
		g := places[[2]string{what, by}]
		if g == nil {
			g = &group{what: what, by: by}
			places[[2]string{what, by}] = g
			groups = append(groups, g)
		}
		g.ids = append(g.ids, r.Key.ID.Short())
	}
	for i, g := range groups {
		if i == shownReceived {
			e.tell("and %s more; --json shows all\n", formatCount(uint64(len(groups)-i)))
			break
		}
		ids := strings.Join(g.ids[:min(len(g.ids), shownReceivedIDs)], ", ")
		if more := len(g.ids) - shownReceivedIDs; more > 0 {
			ids += fmt.Sprintf(" and %s more", formatCount(uint64(more)))
		}
		e.tell("%s %s%s\n", g.what, ids, printable(g.by))
	}
	warnImplausible(e, o.Remote, result)
	if waits > 0 && o.Waiting != tracking.Refuse {
		e.warn("%s for you: they would remove content that is needed here", plural(uint64(waits), "record waits", "records wait"))
		e.info("'kist fetch --records accept %s' accepts, and '--records refuse' takes it back, for all with the next push", printable(o.Remote))
	}
}

// warnImplausible warns about records of a remote that have no effect.
func warnImplausible(e *Env, name string, result *tracking.FetchResult) {
	if n := len(result.Implausible); n > 0 {
		e.warn("%s of %s without effect: no honest repository reaches generation %d (by %s)", plural(uint64(n), "record", "records"),
			quoteArg(name), result.Implausible[0].Generation, result.Implausible[0].Who)
	}
}

// receivedWhat returns what a record says of its object.
func receivedWhat(r *tracking.ReceivedRecord) string {
	switch {
	case r.Kind == record.Purge && r.On:
		return "purged: " + r.Key.Kind.String()
	case r.Kind == record.Purge:
		return "no longer purged: " + r.Key.Kind.String()
	case r.Kind == record.Expire && r.On:
		return "expired:"
	case r.Kind == record.Expire:
		return "no longer expired:"
	case r.On:
		return "held:"
	}
	return "no longer held:"
}

// receivedBy returns who made a record, where and why, and what the object is
// needed for here.
func receivedBy(r *tracking.ReceivedRecord) string {
	text := ", by " + r.Who
	if r.Who == "" {
		text = ", by somebody"
	}
	if r.Host != "" {
		text += " on " + r.Host
	}
	if r.Kind == record.Hold && !r.On && r.Was.Who != "" && r.Was.Who != r.Who {
		text += "; the hold was that of " + r.Was.Who
	}
	if r.Reason != "" {
		text += " (" + subject(r.Reason) + ")"
	}
	if len(r.Needed) > 0 {
		const most = 5
		needed := slices.Clone(r.Needed[:min(len(r.Needed), most)])
		if more := len(r.Needed) - most; more > 0 {
			needed = append(needed, fmt.Sprintf("%d more", more))
		}
		text += "; needed here: " + strings.Join(needed, ", ")
	}
	if r.Waits {
		text += "; waits"
	}
	return text
}

// decisionValue is what becomes of records that wait, as an option.
type decisionValue tracking.Decision

func (v *decisionValue) String() string { return "" }
func (v *decisionValue) Type() string   { return "DECISION" }

func (v *decisionValue) Set(text string) error {
	switch text {
	case "accept":
		*v = decisionValue(tracking.Accept)
	case "refuse":
		*v = decisionValue(tracking.Refuse)
	default:
		return usagef("%s is neither accept nor refuse", quoteArg(text))
	}
	return nil
}
