package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/dir"
	"github.com/kist-vcs/kist/remote/gridfs"
	"github.com/kist-vcs/kist/remote/limit"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/s3"
	"github.com/kist-vcs/kist/remote/sftp"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/remote/web"
)

// backends open the stores of remotes, by the schemes of their URLs.
var backends = remote.Registry{
	"":            dir.Open,
	"file":        dir.Open,
	"s3":          s3.Open,
	"mongodb":     gridfs.Open,
	"mongodb+srv": gridfs.Open,
	"ssh":         sftp.Open,
	"sftp":        sftp.Open,
	"http":        web.Open,
	"https":       web.Open,
}

// transferOptions are the options of commands that talk to a remote.
type transferOptions struct {
	upload, download uint64 // bytes a second; 0: no limit
	Jobs             int
}

func (o *transferOptions) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(NewParsed(&o.upload, "", kist.ParseSize), "limit-upload", "send at most `SIZE` a second, as in 500KiB")
	flags.Var(NewParsed(&o.download, "", kist.ParseSize), "limit-download", "receive at most `SIZE` a second")
	MayExit(cmd, ExitRemote, ExitCredentials)
}

// RegisterJobs is register for commands that copy objects.
func (o *transferOptions) RegisterJobs(cmd *cobra.Command) {
	o.Register(cmd)
	cmd.Flags().IntVarP(&o.Jobs, "jobs", "j", 0, "run `N` transfers at once (default 3 to send, 4 to receive)")
}

// OpenStore opens the store of a URL.
func OpenStore(ctx context.Context, env *Env, url string) (remote.Backend, error) {
	env.Secrets.learnPasswords(url)
	ssh, err := sshCommand(env)
	if scheme, _, _ := strings.Cut(strings.ToLower(url), "://"); err != nil && (scheme == "ssh" || scheme == "sftp") {
		return nil, err
	}
	return backends.Open(ctx, url, remote.Env{
		Getenv: env.Getenv, Home: env.Getenv("HOME"), Now: env.Now, Rand: env.Random, Dir: env.Dir,
		Warn: func(text string) { env.Warn("%s", text) }, SSH: ssh, Jobs: env.Transfer.Jobs,
	})
}

// sshCommand returns the program that makes SSH connections, with its first arguments, or nil for ssh. A repository
// cannot name it: the program would run as the user.
func sshCommand(env *Env) ([]string, error) {
	command, from := env.Getenv("KIST_SSH_COMMAND"), "KIST_SSH_COMMAND"
	if command == "" {
		command, from = env.User.Get(kist.KeySSHCommand), kist.KeySSHCommand
	}
	words, err := remote.SplitWords(command)
	if err != nil {
		return nil, Usagef("%s: %w", from, err)
	}
	return words, nil
}

// RetryOptions returns the rules for retries of requests to a remote.
func RetryOptions(env *Env) retry.Options {
	return retry.Options{Now: env.Now, Sleep: env.Sleep, Notify: func(op string, err error, wait time.Duration) {
		env.log.Note("retry", "op", op, "wait", wait, "error", err)
		if wait >= time.Second || env.Global.Verbose { // shorter waits need no message
			env.Info("%s; next try in %s", Printable(WordsFor(env, err.Error(), err)), wait.Round(100*time.Millisecond))
		}
	}}
}

// OpenBackend opens the store of a URL, with limited rates and with retries.
func (e *Env) OpenBackend(ctx context.Context, url string) (remote.Backend, error) {
	b, err := OpenStore(ctx, e, url)
	if err != nil {
		return nil, err
	}
	b = retry.New(b, RetryOptions(e))
	return limit.New(b, limit.Options{Upload: int64(e.Transfer.upload), Download: int64(e.Transfer.download)}), nil
}

// RemoteURL returns the URL of a remote, as the configuration has it, from an argument. The
// path of a folder becomes absolute, and user@host:path a URL. A file of that name takes precedence.
func (e *Env) RemoteURL(text string) (string, error) {
	if scheme, _, ok := strings.Cut(text, "://"); !ok || strings.Contains(scheme, ":") { // the scheme is missing
		e.Secrets.learnPasswords("url://" + text)
	}
	if url, ok := remote.SSHURL(text); ok && !e.pathExists(text) {
		return url, nil
	}
	if isGitRepository(e, text) {
		err := Usagef("%s is a git repository or a URL for git, and no remote of kist", QuoteArg(remote.Redact(text)))
		return "", Hintf(err, "'kist import git DIR', in a new repository, takes the history of a git repository on this machine")
	}
	if IsURL(text) || filepath.IsAbs(text) {
		return text, nil
	}
	return e.Path(text), nil
}

// pathExists reports whether there is a file or folder with a path.
func (e *Env) pathExists(path string) bool {
	_, err := os.Lstat(e.Path(path))
	return err == nil
}

// isGitRepository reports whether text is a URL of a kind that only git knows, or a folder with
// a git repository and none of kist.
func isGitRepository(e *Env, text string) bool {
	scheme, _, isURL := strings.Cut(strings.ToLower(text), "://")
	if isURL && scheme != "file" {
		git := slices.Contains([]string{"git", "git+ssh", "ssh+git"}, scheme)
		return git || strings.HasPrefix(scheme, "http") && strings.HasSuffix(strings.TrimRight(text, "/"), ".git")
	}
	dir := e.Path(strings.TrimPrefix(text, "file://"))
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return !has(kist.Dir) && !has("root") && (has(".git") || has("HEAD") && has("objects") && has("refs"))
}

// IsURL reports whether text is a URL, or a URL with missing slashes.
func IsURL(text string) bool {
	scheme, rest, found := strings.Cut(text, ":")
	return strings.Contains(text, "://") || found && scheme != "" && (backends[strings.ToLower(scheme)] != nil || strings.HasPrefix(rest, "//"))
}

// WantFolder returns an error if text, the folder of a command, is a URL.
func WantFolder(command, text string) error {
	if IsURL(text) || len(remote.Secrets(text)) > 0 {
		return Usagef("%s needs a folder, and %s is a URL", command, QuoteArg(remote.Redact(text)))
	}
	return nil
}

// Transferred returns a function that shows the progress of a push or fetch.
func (p *Progress) Transferred() func(transfer.Progress) {
	if p == nil {
		return nil
	}
	return func(at transfer.Progress) {
		p.SetTotal(uint64(at.TotalObjects), uint64(at.TotalBytes))
		p.SetDone(uint64(at.Objects), uint64(at.Bytes))
	}
}
