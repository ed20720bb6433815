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
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree"
)

// open opens the repository of the command: that of --repo, or the nearest one from the
// working directory upwards. It refuses the repository of another user, unless this user
// trusts it. The caller closes the repository.
func (e *Env) open() (*kist.Repository, error) {
	root := e.repoDir()
	if root == "" {
		var err error
		if root, err = kist.Discover(e.Dir); err != nil {
			return nil, err
		}
	} else if filepath.Base(root) == kist.Dir {
		root = filepath.Dir(root)
	}

	if err := checkOwner(e, root); err != nil {
		return nil, err
	}
	opt, err := e.options()
	if err != nil {
		return nil, err
	}
	r, err := kist.Open(root, opt)
	if err == nil {
		for _, m := range registry.All(r) {
			e.secrets.learn(m.URL)
		}
	}
	return r, err
}

// repoOptions are options that a command sets before it opens the repository.
type repoOptions struct {
	setID  bool         // restore set-user-ID and set-group-ID bits
	xattrs xattrOptions // the extended attributes of the worktree
	lost   *losses      // receives the accepted losses that the command passes over; nil: it stops at them

	damaged []func() bool // report whether the command passed over damage
}

// afterDamage returns the error of a command that ended with err. If it passed over damage,
// its exit status says so: its output is not all that there should be.
func (o *repoOptions) afterDamage(err error) error {
	if err != nil && !outcomeOf(err).quiet {
		return err
	}
	if slices.ContainsFunc(o.damaged, func(damaged func() bool) bool { return damaged() }) {
		return quiet(exitDamaged)
	}
	return err
}

// inRepository makes cmd open the repository, call run, and close it. Statuses are those of
// [mayExit].
func (e *Env) inRepository(cmd *cobra.Command, run func(ctx context.Context, env *Env, r *kist.Repository, args []string) error, statuses ...int) {
	opensRepository(cmd, statuses...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e.cmd = cmd
		r, err := e.open()
		if err != nil {
			return err
		}
		defer r.Close()
		exchange.Connect(cmd.Context(), r)
		err = e.repo.afterDamage(run(cmd.Context(), e, r, args))
		noteIdentity(e, r)
		return err
	}
}

// notBare returns a run that refuses a bare repository. Commands that write to the worktree
// use it.
func notBare[F func(context.Context, *Env, *kist.Repository, []string) error](run F) F {
	return func(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
		if r.IsBare() {
			return kist.ErrBare
		}
		return run(ctx, env, r, args)
	}
}

// opensRepository is [mayExit] for a command that opens a repository.
func opensRepository(cmd *cobra.Command, statuses ...int) {
	mayExit(cmd, append(statuses, exitNoRepository, exitDamaged, exitFormat)...)
}

// options returns the options of a repository in this environment.
func (e *Env) options() (kist.Options, error) {
	if e.userErr != nil {
		return kist.Options{}, e.userErr
	}
	at, err := commitTime(e)
	if err != nil {
		return kist.Options{}, err
	}
	xattrs, err := e.repo.xattrs.given()
	if err != nil {
		return kist.Options{}, err
	}
	date := e.Now
	if e.Getenv("KIST_DATE") != "" {
		date = func() time.Time { return at }
	}
	return kist.Options{
		Now:      e.Now,
		Date:     date,
		Random:   e.Random,
		User:     e.user,
		Host:     e.Hostname,
		Identity: func(name, email string) (string, string) { return author(e, name, email) },
		WorkDir:  e.Dir,
		Warn:     func(text string) { e.warn("%s", text) },
		Lost:     e.repo.lost.hook(),
		Backend:  e.openBackend,
		Retry:    retryOptions(e),

		FileOptions: kist.FileOptions{Umask: e.Umask, SetID: e.repo.setID, Xattrs: xattrs},
	}, nil
}

// repoPaths returns the paths in the repository of paths on the command line. The root is
// "". Paths outside the worktree, or in its .kist folder, are errors.
func repoPaths(env *Env, r *kist.Repository, args []string) ([]string, error) {
	paths := make([]string, 0, len(args))
	for _, arg := range args {
		path, err := env.repoPath(r, arg)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// repoPath is repoPaths for one path.
func (e *Env) repoPath(r *kist.Repository, arg string) (string, error) {
	if arg == "" {
		return "", usagef("an empty path names nothing; use . for all of the current folder")
	}
	rel, ok := below(r.Root(), e.path(arg))
	if !ok {
		// The user may have come to the working directory through a symlink.
		if real, err := filepath.EvalSymlinks(e.Dir); err == nil && !filepath.IsAbs(arg) {
			rel, ok = below(r.Root(), filepath.Join(real, arg))
		}
		if root, err := filepath.EvalSymlinks(r.Root()); err == nil && !ok {
			rel, ok = below(root, e.path(arg))
		}
	}
	if !ok {
		return "", failf(exitFailed, "path", "path %s is outside the worktree %s", quoteArg(arg), quoteArg(r.Root()))
	}
	path, err := tree.CleanPath(rel)
	if err != nil {
		var bad *tree.PathError
		if errors.As(err, &bad) {
			err = bad.Err // the message names the path already
		}
		return "", failf(exitFailed, "path", "path %s: %w", quoteArg(arg), err)
	}
	return path, nil
}

// below returns path relative to root, with slashes. It is "" for root. It reports whether
// path is root, or below it.
func below(root, path string) (string, bool) {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(os.PathSeparator)) {
		return "", false
	}
	if rel == "." {
		rel = ""
	}
	return filepath.ToSlash(rel), true
}

// shown returns a path of the repository as it is printed: relative to the
// working directory, quoted if it holds odd characters.
func (e *Env) shown(r *kist.Repository, path string) string { return quotePath(e.relative(r, path)) }

// repositoryFile returns the path of a file of the repository as it is printed.
func repositoryFile(r *kist.Repository, file string) string {
	if r.IsBare() {
		return filepath.Join(r.Dir(), file)
	}
	return path.Join(kist.Dir, file)
}

// relative returns a path of the repository, relative to the working directory. In a bare
// repository the result is absolute. It keeps a slash at the end of path.
func (e *Env) relative(r *kist.Repository, path string) string {
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
		return time.Time{}, usagef("KIST_DATE %s is not a time as in 2026-01-31T12:00:00Z", quoteArg(fixed))
	}
	return t, nil
}
