package care

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/check"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

func NewRemote(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remote [COMMAND]",
		Short: "manage remotes",
		Long: `A remote is a named store that repositories are pushed to and fetched from: a
shared folder, a bucket, a database, or a folder on a server with SSH. It needs
no server of kist's own. A web server that publishes the folder of a remote is a
remote that can only be read.
Without a command, lists the remotes; with --verbose also their URLs.

A URL is one of

  /media/backup/photos             a folder, on a disk or a network file system
  USER@HOST:PATH                   a folder on a server with SSH; PATH starts in
                                   the home folder there, or is absolute
  ssh://USER@HOST:PORT/PATH        the same; PATH is absolute, or /~/ begins one
                                   in the home folder
  s3://BUCKET/PREFIX               S3, or a compatible store; then with
                                   ?endpoint=https://HOST, and &region=NAME
  mongodb://HOST/DATABASE          GridFS; ?bucket=NAME can follow, and whatever
  mongodb+srv://HOST/DATABASE      else MongoDB knows
  https://HOST/PATH                a folder that a web server publishes

A URL holds no keys or passwords, and kist does not store them. For S3, kist
looks where AWS's own tools do: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,
AWS_PROFILE and ~/.aws, or the role of the machine. For MongoDB, it uses
KIST_MONGODB_USERNAME and KIST_MONGODB_PASSWORD, and sends them only to the
hosts in KIST_MONGODB_HOST. For SSH, it runs ssh, which has its own keys and
agents; KIST_SSH_COMMAND and core.ssh-command name another program. A file here
named HOST:PATH takes precedence. For a web server, it uses ~/.netrc, or
KIST_HTTP_USERNAME and KIST_HTTP_PASSWORD for the hosts in KIST_HTTP_HOST, and
sends them only over TLS.`,
		Example: `  kist remote add origin /media/backup/photos
  kist remote add nas anna@nas:backup/photos
  kist remote add cloud 's3://bucket/photos?endpoint=https://s3.example.org'
  kist remote -v`,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "for each remote", registry.Remote{})
	env.InRepository(cmd, runRemoteList)
	cmd.AddCommand(newRemoteAdd(env), newRemoteList(env), newRemoteShow(env), newRemoteGetURL(env), newRemoteSetURL(env), newRemoteRename(env), newRemotePrune(env), newRemoteRemove(env), newRemoteCheck(env), newRemoteLog(env), newRemoteGC(env), newRemoteCopy(env))
	return cmd
}

// redacted returns m without a password in its URL, as the remote commands print it with
// --json.
func redacted(m registry.Remote) registry.Remote {
	m.URL = remote.Redact(m.URL)
	return m
}

func newRemoteList(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "list the remotes",
		Long:              `Lists the names of the remotes; with --verbose also their URLs.`,
		Example:           `  kist remote list -v`,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "for each remote", registry.Remote{})
	env.InRepository(cmd, runRemoteList)
	return cmd
}

func runRemoteList(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	for _, m := range registry.All(r) {
		switch {
		case env.Global.JSON:
			env.JSON(redacted(m))
		case env.Global.Verbose:
			env.Printf("%s\t%s\n", cli.Printable(m.Name), cli.Printable(remote.Redact(m.URL)))
		default:
			env.Printf("%s\n", cli.Printable(m.Name))
		}
	}
	return nil
}

func newRemoteRemove(env *cli.Env) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:     "remove [OPTIONS] NAME",
		Aliases: []string{"rm"},
		Short:   "remove a remote",
		Long: `Removes the remote NAME and its remote-tracking branches from this repository.
Pushed content stays on the remote, and fetched content stays here. A remote
with content that is nowhere else (see --local-limit in 'kist help backup') is
removed only with --force.`,
		Example:           `  kist remote remove cloud`,
		Args:              cli.Arguments(1, 1, "NAME"),
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "", registry.Remote{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return runRemoteRemove(ctx, env, r, args[0], force)
	}, cli.ExitBusy)
	cmd.Flags().BoolVarP(&force, "force", "f", false, "also if content of this repository is only there")
	return cmd
}

func runRemoteRemove(ctx context.Context, env *cli.Env, r *kist.Repository, name string, force bool) error {
	m, err := registry.Find(r, name)
	if err != nil {
		return err
	}
	if !force {
		if err := refuseOnlyCopy(ctx, r, m.Name); err != nil {
			return err
		}
	}
	if err := registry.Remove(ctx, r, m.Name); err != nil {
		return err
	}
	env.JSON(redacted(m))
	return nil
}

// refuseOnlyCopy returns an error if content of the repository is only on a remote.
func refuseOnlyCopy(ctx context.Context, r *kist.Repository, name string) error {
	n, err := registry.OnlyOn(ctx, r, name)
	if err != nil || n == 0 {
		return err
	}
	err = cli.Failf(cli.ExitFailed, "only-copy", "%s only on the remote %s", readable.Plural(uint64(n), "object of this repository is", "objects of this repository are"), cli.QuoteArg(name))
	return cli.Hintf(err, "without it, files cannot be read; --force removes it all the same")
}

type remoteAddOptions struct {
	registry.Remote
	encryption     encryption
	noCheck, fetch bool
}

func newRemoteAdd(env *cli.Env) *cobra.Command {
	var o remoteAddOptions
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] NAME URL",
		Short: "add a remote",
		Long: `Gives a store a name for 'kist push' and 'kist fetch'. See 'kist help remote'
for the form of URL. kist creates the folder of a remote if its parent folder
exists. Buckets and databases have to exist already.

kist checks the store first: it must keep all data that is written, and if many
create the same record at once, exactly one must succeed. Only then can several
people push at the same time. A store that fails is refused. --single-writer
accepts it, and you must make sure that nobody else pushes. The first push
records that on the remote: clones respect it, and a remote added without
--single-writer cannot be pushed to. A place inside another remote, or around
one, is refused. The check removes its files, if the store permits it.

With --object-lock 30d, S3 locks each file that a push stores for 30 days, so
that nobody can delete or change it, not even the owner of the bucket. Pushes
renew the locks of all files in use when half of the time has passed. The bucket
needs Object Lock. The first push records the setting on the remote, and all
clones heed it. With 30d,governance some users can end locks early.
'kist help immutable' has more.

With --encrypted, everything is encrypted before it leaves this machine. Its
recipients can read it: you, by your identities; the keys of --recipient; with
--passphrase, whoever knows that; and the recovery key, which is shown once, for
a sheet of paper. If you have no identity and name no recipient, kist makes you
an identity. The place has to be empty.
'kist help encrypt' has more.

URL may be the folder of another repository. That can be fetched from, and not
pushed to.`,
		Example: `  kist remote add origin /media/backup/photos
  kist remote add cloud s3://bucket/photos`,
		Args:              cli.Arguments(2, 2, "NAME", "URL"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "", remoteCheckedJSON{})
	env.InRepository(cmd, o.run, cli.ExitBusy, cli.ExitRemote, cli.ExitCredentials)
	flags := cmd.Flags()
	flags.BoolVar(&o.SingleWriter, "single-writer", false, "accept a store that is not safe for concurrent pushes")
	flags.StringVar(&o.ObjectLock, "object-lock", "", "have S3 lock each file for an `AGE`, as in 30d")
	flags.BoolVar(&o.noCheck, "no-check", false, "do not check or contact the store")
	flags.BoolVarP(&o.fetch, "fetch", "f", false, "fetch from it, too")
	o.encryption.register(flags)
	cmd.MarkFlagsMutuallyExclusive("no-check", "fetch")
	cmd.MarkFlagsMutuallyExclusive("no-check", "encrypted")
	return cmd
}

func (o *remoteAddOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	o.Name = args[0]
	if cli.IsURL(o.Name) {
		return cli.Hintf(cli.Usagef("%s is a URL, not a name for a remote", cli.QuoteArg(remote.Redact(o.Name))), "the name comes first: kist remote add NAME URL")
	}
	var err error
	if o.URL, err = env.RemoteURL(args[1]); err != nil {
		return err
	}
	if _, err := kist.ParseLock(o.ObjectLock); err != nil {
		return cli.Usagef("--object-lock: %w", err)
	}
	if err := o.encryption.checkOptions(env); err != nil {
		return err
	}
	m := o.Remote
	if err := registry.Check(r, m); err != nil {
		return err
	}

	report, err := checkAdded(ctx, env, r, m, o.noCheck)
	switch {
	case err != nil:
	case o.encryption.wanted && report != nil:
		m, err = o.encryption.makeRemote(ctx, env, r, m)
		err = explainMade(err, m)
	case report != nil:
		m, err = registry.FindPin(ctx, r, m)
	}
	if err != nil {
		return err
	}
	if err := registry.Add(ctx, r, m); err != nil {
		return err
	}
	env.JSON(newRemoteCheckedJSON(m, report))
	tellChecked(env, m, report)
	if !o.fetch {
		return nil
	}
	err = share.FetchFrom(ctx, env, r, exchange.FetchOptions{Remote: m.Name})
	if errors.Is(err, rootlog.ErrEmpty) {
		return nil
	}
	return err
}

// checkAdded checks the store of a remote that gets a name or another URL. It does not check
// a repository, which is only read. The report is nil then, and with noCheck. It is empty for a store that nobody can
// write to.
func checkAdded(ctx context.Context, env *cli.Env, r *kist.Repository, m registry.Remote, noCheck bool) (*check.Report, error) {
	if noCheck || m.IsRepository() {
		return nil, nil
	}
	if err := registry.CheckNested(ctx, r, m); err != nil {
		return nil, err
	}
	report, err := checkStore(ctx, env, m)
	if errors.Is(err, remote.ErrReadOnly) {
		report, err = &check.Report{Checks: []check.Result{}}, nil
	}
	if report != nil && env.Global.Verbose && !env.Global.JSON {
		env.Printf("%s", report)
	}
	if errors.Is(err, remote.ErrPermission) {
		return nil, cli.Hintf(err, "to fetch only, add it with --no-check")
	}
	if err == nil {
		err = checkRepository(ctx, env, r, m)
	}
	return report, err
}

// tellChecked prints the result of the check of a remote.
func tellChecked(env *cli.Env, m registry.Remote, report *check.Report) {
	switch {
	case report != nil && len(report.Checks) == 0:
		env.PrintOutcome("%s can only be read: 'kist pull' reads it, and nothing can be pushed to it\n", cli.QuoteArg(remote.Redact(m.URL)))
	case report != nil:
		env.PrintOutcome("remote check passed: %s%s%s\n", sharing(m), secrecy(m), storageClass(report))
	case m.IsRepository():
		env.PrintOutcome("%s is a repository: 'kist pull' reads it, and nothing can be pushed to it\n", cli.QuoteArg(m.URL))
	}
}

func sharing(m registry.Remote) string {
	if m.SingleWriter {
		return "only one person may push at a time"
	}
	return "concurrent pushes are safe"
}

func secrecy(m registry.Remote) string {
	if m.Encrypted == "" {
		return ""
	}
	return "; everything is encrypted before it leaves this machine"
}

// storageClass returns what a check found about the class of storage, if the URL names one.
func storageClass(report *check.Report) string {
	for _, c := range report.Checks {
		if c.Name == check.Class {
			return "; " + c.What
		}
	}
	return ""
}

// checkRepository warns if a remote has another repository than r. A store that can only be read has to be a remote.
func checkRepository(ctx context.Context, env *cli.Env, r *kist.Repository, m registry.Remote) error {
	b, err := env.OpenBackend(ctx, m.URL)
	if err != nil {
		return err
	}
	defer b.Close()
	identity, err := rootlog.ReadIdentity(ctx, b)
	if errors.Is(err, rootlog.ErrEmpty) {
		if remote.CheckWritable(b) != nil {
			return fmt.Errorf("no kist remote in %q: %w", remote.Redact(m.URL), err)
		}
		return nil
	}
	if err == nil && !identity.IsEncrypted() && identity.Repository != r.ID() {
		env.Warn("%s holds another repository, with other chunk boundaries: both can be merged, but share no stored content", cli.QuoteArg(m.Name))
	}
	return err
}

func newRemoteLog(env *cli.Env) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "log [OPTIONS] [NAME]",
		Short: "show the pushes to a remote",
		Long: `Shows each push to a remote, newest first: time, person, machine, and the moved
branches and tags. The remote keeps this log for ever. It is a chain of hashes,
which kist checks as it reads.`,
		Example: `  kist remote log
  kist remote log -n 5 origin`,
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "for each change", rootJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return runRemoteLog(ctx, env, r, limit, args)
	})
	cmd.Flags().IntVarP(&limit, "max-count", "n", 0, "stop after `N`")
	env.Transfer.Register(cmd)
	return cmd
}

// rootJSON is a change of a remote as remote log prints it with --json.
type rootJSON struct {
	Seq  uint64         `json:"seq" doc:"the number of the change"`
	Time time.Time      `json:"time" doc:"when it was made"`
	Who  string         `json:"who" doc:"who made it"`
	Host string         `json:"host,omitempty" doc:"the machine where it was made"`
	Refs []show.RefMove `json:"refs" doc:"the refs that moved"`
}

func runRemoteLog(ctx context.Context, env *cli.Env, r *kist.Repository, limit int, args []string) error {
	name, err := share.FetchRemote(env, r, args)
	if err != nil {
		return err
	}
	opened, err := registry.OpenToInspect(ctx, r, name)
	if err != nil {
		return err
	}
	defer opened.Close()
	for root, err := range opened.Roots(ctx, limit) {
		if err != nil {
			return err
		}
		if env.Global.JSON {
			env.JSON(newRootJSON(root))
		} else {
			printRoot(env, root)
		}
	}
	return nil
}

func newRootJSON(root *rootlog.Root) rootJSON {
	out := rootJSON{Seq: root.Seq, Time: root.Time, Who: root.Who, Host: root.Host, Refs: []show.RefMove{}}
	for _, move := range root.Moves {
		out.Refs = append(out.Refs, show.NewRefMove(move.Name, "", move.Old.ID, move.New.ID, ""))
	}
	return out
}

// rootTime is the layout of the time of a root.
const rootTime = "2006-01-02 15:04:05 -0700"

// authorOf returns the author of a root and the machine, for a person.
func authorOf(who, host string) string {
	if host == "" {
		return who
	}
	return who + " on " + host
}

func printRoot(env *cli.Env, root *rootlog.Root) {
	env.Printf("%s %s  %s\n", env.Paint(cli.Yellow, fmt.Sprintf("%d", root.Seq)), root.Time.Local().Format(rootTime), cli.Printable(authorOf(root.Who, root.Host)))
	for _, move := range root.Moves {
		name := cli.Printable(move.Name)
		switch old, new := move.Old.ID, move.New.ID; {
		case old.IsZero():
			env.Printf("    %s  new, %s\n", name, new.Short())
		case new.IsZero():
			env.Printf("    %s  deleted, was %s\n", name, old.Short())
		default:
			env.Printf("    %s  %s..%s\n", name, old.Short(), new.Short())
		}
	}
	if more := root.Moved - len(root.Moves); more > 0 {
		env.Printf("    and %s more\n", readable.FormatCount(uint64(more)))
	}
	if len(root.Moves) == 0 {
		env.Printf("    no branch or tag moved\n")
	}
}
