package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/check"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/tracking"
)

func newRemote(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remote [COMMAND]",
		Short: "manage remotes",
		Long: `A remote is a place, known by a name, to which a repository is pushed: a folder
that others can reach, a bucket, a database. There is nothing to be run there.
Without a command, lists the remotes; with --verbose also their URLs.

A URL is one of

  /media/backup/photos             a folder, on a disk or a network file system
  s3://BUCKET/PREFIX               S3, or what speaks its protocol; then with
                                   ?endpoint=https://HOST, and &region=NAME
  mongodb://HOST/DATABASE          GridFS; ?bucket=NAME can follow, and whatever
  mongodb+srv://HOST/DATABASE      else MongoDB knows

Keys and passwords are not part of it, and kist does not store them. For S3 they
come from where AWS's own tools have them: AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, AWS_PROFILE and ~/.aws, or the role of the machine; for
MongoDB from KIST_MONGODB_USERNAME and KIST_MONGODB_PASSWORD, which are only
sent to the hosts in KIST_MONGODB_HOST.`,
		Example: `  kist remote add origin /media/backup/photos
  kist remote add cloud 's3://bucket/photos?endpoint=https://s3.example.org'
  kist remote -v`,
		Args:              noArguments,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runRemoteList(env) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	inRepository(cmd)
	cmd.AddCommand(newRemoteAdd(env), newRemoteList(env), newRemoteRemove(env), newRemoteCheck(env), newRemoteLog(env))
	return cmd
}

// remoteJSON is a remote as the remote commands print it with --json.
type remoteJSON struct {
	Name         string `json:"name"`
	URL          string `json:"url"`
	SingleWriter bool   `json:"single_writer,omitempty"`
}

func newRemoteJSON(m registry.Remote) remoteJSON {
	return remoteJSON{m.Name, remote.Redact(m.URL), m.SingleWriter}
}

func newRemoteList(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "list the remotes",
		Long: `Lists the names of the remotes; with --verbose also their URLs.

With --json, for each remote: name, url, single_writer.`,
		Example:           `  kist remote list -v`,
		Args:              noArguments,
		RunE:              func(*cobra.Command, []string) error { return runRemoteList(env) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	inRepository(cmd)
	return cmd
}

func runRemoteList(env *Env) error {
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	for _, m := range registry.All(r) {
		switch {
		case env.global.json:
			if err := env.json(newRemoteJSON(m)); err != nil {
				return err
			}
		case env.global.verbose:
			env.printf("%s\t%s\n", printable(m.Name), printable(remote.Redact(m.URL)))
		default:
			env.printf("%s\n", printable(m.Name))
		}
	}
	return nil
}

func newRemoteRemove(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "remove a remote",
		Long: `Forgets the remote NAME, and where its branches were. What was pushed to it
stays there, and what was fetched from it here.`,
		Example:           `  kist remote remove cloud`,
		Args:              arguments(1, 1, "NAME"),
		RunE:              func(cmd *cobra.Command, args []string) error { return runRemoteRemove(cmd.Context(), env, args[0]) },
		ValidArgsFunction: env.complete(remotes),
	}
	inRepository(cmd)
	mayExit(cmd, exitBusy)
	return cmd
}

func runRemoteRemove(ctx context.Context, env *Env, name string) error {
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := registry.Find(r, name)
	if err != nil {
		return err
	}
	if err := registry.Remove(ctx, r, name); err != nil {
		return err
	}
	if env.global.json {
		return env.json(newRemoteJSON(m))
	}
	return nil
}

type remoteAddOptions struct {
	singleWriter bool
	noCheck      bool
	fetch        bool
}

func newRemoteAdd(env *Env) *cobra.Command {
	var o remoteAddOptions
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] NAME URL",
		Short: "add a remote",
		Long: `Gives a store a name, by which 'kist push' and 'kist fetch' know it. See 'kist
help remote' for what URL may be. The folder of a remote is made if it is absent
and the one around it is there; buckets and databases have to exist.

First the store is tried out: that it keeps what it is given, and that of many
who create the same record exactly one succeeds. That is what makes it safe for
several people to push at once. A store that does not is refused; with
--single-writer it is taken, and it is then up to you that nobody else pushes
to it. The first push notes that on the remote: clones know it, and whoever adds
the remote without --single-writer cannot push. A place inside another remote,
or around one, is refused. What the trial writes, it removes, as far as it may.

With --json: name, url, single_writer, and checks as for 'kist remote check'.`,
		Example: `  kist remote add origin /media/backup/photos
  kist remote add cloud s3://bucket/photos`,
		Args: arguments(2, 2, "NAME", "URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRemoteAdd(cmd.Context(), env, o, args[0], args[1])
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	inRepository(cmd)
	mayExit(cmd, exitBusy, exitRemote, exitCredentials)
	flags := cmd.Flags()
	flags.BoolVar(&o.singleWriter, "single-writer", false, "accept a store that is not safe for concurrent pushes")
	flags.BoolVar(&o.noCheck, "no-check", false, "do not check or contact the store")
	flags.BoolVarP(&o.fetch, "fetch", "f", false, "fetch from it, too")
	cmd.MarkFlagsMutuallyExclusive("no-check", "fetch")
	return cmd
}

func runRemoteAdd(ctx context.Context, env *Env, o remoteAddOptions, name, url string) error {
	if isURL(name) {
		return hintf(usagef("%s is a URL, not a name for a remote", quoteArg(remote.Redact(name))), "the name comes first: kist remote add NAME URL")
	}
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if url, err = env.remoteURL(url); err != nil {
		return err
	}
	m := registry.Remote{Name: name, URL: url, SingleWriter: o.singleWriter}
	if err := registry.Check(r, m); err != nil {
		return err
	}
	var report *check.Report
	if !o.noCheck {
		if err := registry.CheckNested(ctx, r, m); err != nil {
			return err
		}
		report, err = env.checkStore(ctx, m)
		if report != nil && env.global.verbose && !env.global.json {
			env.printf("%s", report)
		}
		if errors.Is(err, remote.ErrPermission) {
			return hintf(err, "to fetch only, add it with --no-check")
		}
		if err != nil {
			return err
		}
		if err := env.checkRepository(ctx, r, m); err != nil {
			return err
		}
	}
	if err := registry.Add(ctx, r, m); err != nil {
		return err
	}
	if env.global.json {
		err = env.json(newRemoteCheckedJSON(m, report))
	} else if !o.noCheck {
		env.tell("remote check passed: %s\n", sharing(m))
	}
	if err == nil && o.fetch {
		err = env.fetch(ctx, r, tracking.FetchOptions{Remote: name})
		if errors.Is(err, rootlog.ErrEmpty) {
			return nil
		}
	}
	return err
}

func sharing(m registry.Remote) string {
	if m.SingleWriter {
		return "only one person may push at a time"
	}
	return "concurrent pushes are safe"
}

// checkRepository says if a remote holds another repository than r.
func (e *Env) checkRepository(ctx context.Context, r *kist.Repository, m registry.Remote) error {
	b, err := e.openBackend(ctx, m.URL)
	if err != nil {
		return err
	}
	defer b.Close()
	identity, err := rootlog.ReadIdentity(ctx, b)
	if errors.Is(err, rootlog.ErrEmpty) {
		return nil
	}
	if err == nil && identity.Repository != r.ID() {
		e.warn("%s holds another repository, with other chunk boundaries: both can be merged, but share no stored content", quoteArg(m.Name))
	}
	return err
}

func newRemoteLog(env *Env) *cobra.Command {
	var o struct {
		transferOptions
		limit int
	}
	cmd := &cobra.Command{
		Use:   "log [OPTIONS] [NAME]",
		Short: "show the pushes to a remote",
		Long: `Shows each change of a remote's branches and tags, newest first: when, who, from
which machine, and what was moved. The remote keeps this log for ever; it is a
chain of hashes, and checked as it is read.

With --json, one line for each: seq, time, who, host, refs (name, old, new).`,
		Example: `  kist remote log
  kist remote log -n 5 origin`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			env.transfer = o.transferOptions
			return runRemoteLog(cmd.Context(), env, o.limit, args)
		},
		ValidArgsFunction: env.complete(remotes),
	}
	inRepository(cmd)
	flags := cmd.Flags()
	flags.IntVarP(&o.limit, "max-count", "n", 0, "stop after `N`")
	o.register(cmd)
	return cmd
}

// rootJSON is a change of a remote as remote log prints it with --json.
type rootJSON struct {
	Seq  uint64        `json:"seq"`
	Time time.Time     `json:"time"`
	Who  string        `json:"who"`
	Host string        `json:"host,omitempty"`
	Refs []refMoveJSON `json:"refs"`
}

func runRemoteLog(ctx context.Context, env *Env, limit int, args []string) error {
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	name, err := env.fetchRemote(r, args)
	if err != nil {
		return err
	}
	opened, err := registry.OpenNamed(ctx, r, name)
	if err != nil {
		return err
	}
	defer opened.Close()
	for root, err := range opened.Roots(ctx, limit) {
		if err != nil {
			return err
		}
		if env.global.json {
			if err := env.json(newRootJSON(root)); err != nil {
				return err
			}
			continue
		}
		env.printRoot(root)
	}
	return nil
}

func newRootJSON(root *rootlog.Root) rootJSON {
	out := rootJSON{Seq: root.Seq, Time: root.Time, Who: root.Who, Host: root.Host, Refs: []refMoveJSON{}}
	for _, move := range root.Moves {
		out.Refs = append(out.Refs, newRefMoveJSON(move.Name, "", move.Old.ID, move.New.ID, ""))
	}
	return out
}

func (e *Env) printRoot(root *rootlog.Root) {
	who := root.Who
	if root.Host != "" {
		who += " on " + root.Host
	}
	e.printf("%s %s  %s\n", e.paint(yellow, fmt.Sprintf("%d", root.Seq)), root.Time.Local().Format("2006-01-02 15:04:05 -0700"), printable(who))
	for _, move := range root.Moves {
		name := printable(move.Name)
		switch old, new := move.Old.ID, move.New.ID; {
		case old.IsZero():
			e.printf("    %s  new, %s\n", name, new.Short())
		case new.IsZero():
			e.printf("    %s  deleted, was %s\n", name, old.Short())
		default:
			e.printf("    %s  %s..%s\n", name, old.Short(), new.Short())
		}
	}
	if more := root.Moved - len(root.Moves); more > 0 {
		e.printf("    and %s more\n", formatCount(uint64(more)))
	}
	if len(root.Moves) == 0 {
		e.printf("    no branch or tag moved\n")
	}
}
