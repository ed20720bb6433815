package cli

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/tree"
)

// Open opens the repository of the command: that of --repo, or the nearest one from the
// working directory upwards. It refuses the repository of another user, unless this user
// trusts it. The caller closes the repository.
func (e *Env) Open() (*kist.Repository, error) {
	root := e.RepoDir()
	if root == "" {
		var err error
		if root, err = kist.Discover(e.Dir); err != nil {
			return nil, err
		}
	} else if filepath.Base(root) == kist.Dir {
		root = filepath.Dir(root)
	}

	if err := CheckOwner(e, root); err != nil {
		return nil, err
	}
	opt, err := e.Options()
	if err != nil {
		return nil, err
	}
	r, err := kist.Open(root, opt)
	if err == nil {
		for _, m := range registry.All(r) {
			e.Secrets.learnPasswords(m.URL)
		}
	}
	return r, err
}

// repoOptions are options that a command sets before it opens the repository.
type repoOptions struct {
	setID  bool         // restore set-user-ID and set-group-ID bits
	Xattrs XattrOptions // the extended attributes of the worktree
	Lost   *Losses      // receives the accepted losses that the command passes over; nil: it stops at them

	identities    *keyset.Identities // for encrypted remotes; nil until they are needed
	Commits, Tags SignFlags          // whether they are signed, and by which key

	Damaged []func() bool // report whether the command passed over damage
}

// afterDamage returns the error of a command that ended with err. If it passed over damage,
// its exit status says so: its output is not all that there should be.
func (o *repoOptions) afterDamage(err error) error {
	if err != nil && !OutcomeOf(err).quiet {
		return err
	}
	if slices.ContainsFunc(o.Damaged, func(damaged func() bool) bool { return damaged() }) {
		return Quiet(ExitDamaged)
	}
	return err
}

// InRepository makes cmd open the repository, call run, and close it. Statuses are those of
// [MayExit].
func (e *Env) InRepository(cmd *cobra.Command, run func(ctx context.Context, env *Env, r *kist.Repository, args []string) error, statuses ...int) {
	OpensRepository(cmd, statuses...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := e.Open()
		if err != nil {
			return err
		}
		defer r.Close()
		exchange.Connect(cmd.Context(), r)
		if err := limitFetches(e, cmd, r); err != nil {
			return err
		}
		err = e.Repo.afterDamage(run(cmd.Context(), e, r, args))
		noteIdentity(e, r)
		return err
	}
}

// NotBare returns a run that refuses a bare repository. Commands that write to the worktree
// use it.
func NotBare[F func(context.Context, *Env, *kist.Repository, []string) error](run F) F {
	return func(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
		if r.IsBare() {
			return kist.ErrBare
		}
		return run(ctx, env, r, args)
	}
}

// OpensRepository is [MayExit] for a command that opens a repository.
func OpensRepository(cmd *cobra.Command, statuses ...int) {
	MayExit(cmd, append(statuses, ExitNoRepository, ExitDamaged, ExitFormat)...)
}

// Options returns the options of a repository in this environment.
func (e *Env) Options() (kist.Options, error) {
	if e.UserErr != nil {
		return kist.Options{}, e.UserErr
	}
	at, err := commitTime(e)
	if err != nil {
		return kist.Options{}, err
	}
	xattrs, err := e.Repo.Xattrs.givenOptions()
	if err != nil {
		return kist.Options{}, err
	}
	date := e.Now
	if e.Getenv("KIST_DATE") != "" {
		date = func() time.Time { return at }
	}
	return kist.Options{
		Now:     e.Now,
		Date:    date,
		Random:  e.Random,
		User:    e.User,
		Host:    e.Hostname,
		WorkDir: e.Dir,
		Warn:    func(text string) { e.Warn("%s", text) },
		Lost:    e.Repo.Lost.noteFunc(),
		Backend: e.OpenBackend,
		Retry:   RetryOptions(e),
		Keys:    e.Identities(),

		Committer: kist.Committer{
			Identity: func(name, email string) (string, string) { return author(e, name, email) },
			Sign:     e.signingOptions(),
		},
		FileOptions: kist.FileOptions{
			Umask: e.Umask, SetID: e.Repo.setID, Xattrs: xattrs,
			OnlyAway: func(bytes int64) {
				e.Info("%s of content is now only away: a remote keeps it", readable.FormatSize(uint64(bytes)))
			},
		},
	}, nil
}

// RepoPaths returns the paths in the repository of paths on the command line. The root is
// "". Paths outside the worktree, or in its .kist folder, are errors.
func RepoPaths(env *Env, r *kist.Repository, args []string) ([]string, error) {
	paths := make([]string, 0, len(args))
	for _, arg := range args {
		path, err := env.RepoPath(r, arg)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// RepoPath is RepoPaths for one path.
func (e *Env) RepoPath(r *kist.Repository, arg string) (string, error) {
	if arg == "" {
		return "", Usagef("an empty path names nothing; use . for all of the current folder")
	}
	rel, ok := Below(r.Root(), e.Path(arg))
	if !ok {
		// The user may have come to the working directory through a symlink.
		if real, err := filepath.EvalSymlinks(e.Dir); err == nil && !filepath.IsAbs(arg) {
			rel, ok = Below(r.Root(), filepath.Join(real, arg))
		}
		if root, err := filepath.EvalSymlinks(r.Root()); err == nil && !ok {
			rel, ok = Below(root, e.Path(arg))
		}
	}
	if !ok {
		return "", Failf(ExitFailed, "path", "path %s is outside the worktree %s", QuoteArg(arg), QuoteArg(r.Root()))
	}
	path, err := tree.CleanPath(rel)
	if err != nil {
		var bad *tree.PathError
		if errors.As(err, &bad) {
			err = bad.Err // the message names the path already
		}
		return "", Failf(ExitFailed, "path", "path %s: %w", QuoteArg(arg), err)
	}
	return path, nil
}

// Below returns path relative to root, with slashes. It is "" for root. It reports whether
// path is root, or below it.
func Below(root, path string) (string, bool) {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(os.PathSeparator)) {
		return "", false
	}
	if rel == "." {
		rel = ""
	}
	return filepath.ToSlash(rel), true
}

// Shown returns a path of the repository as it is printed: relative to the
// working directory, quoted if it holds odd characters.
func (e *Env) Shown(r *kist.Repository, path string) string { return QuotePath(e.Relative(r, path)) }

// RepositoryFile returns the path of a file of the repository as it is printed.
func RepositoryFile(r *kist.Repository, file string) string {
	if r.IsBare() {
		return filepath.Join(r.Dir(), file)
	}
	return path.Join(kist.Dir, file)
}

// Relative returns a path of the repository, relative to the working directory. In a bare
// repository the result is absolute. It keeps a slash at the end of path.
func (e *Env) Relative(r *kist.Repository, path string) string {
	shown := filepath.Join(r.Root(), filepath.FromSlash(path))
	if !r.IsBare() {
		rel, err := filepath.Rel(e.Dir, shown)
		if err != nil {
			return path
		}
		shown = rel
	}
	if strings.HasSuffix(path, "/") {
		shown += "/"
	}
	return shown
}

// commitTime returns the time that commits and logs record: that of KIST_DATE, or now. With
// KIST_DATE, a script makes the same commits each time.
func commitTime(env *Env) (time.Time, error) {
	fixed := env.Getenv("KIST_DATE")
	if fixed == "" {
		return env.Now(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, fixed)
	if err != nil {
		return time.Time{}, Usagef("KIST_DATE %s is not a time as in 2026-01-31T12:00:00Z", QuoteArg(fixed))
	}
	return t, nil
}
