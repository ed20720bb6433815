package cli

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/readable"
)

// GitIdentity is the user's identity in git's configuration, which kist uses if its own
// configuration has none.
type GitIdentity struct {
	Git         func(*Env) (name, email string) // reads that configuration; may be nil
	read        bool
	name, email string // as git has them
	used        string // the identity of this process, if a part of it is git's
}

// GitUser returns the user's name and address in git's own configuration of the user. It asks
// git, which knows all forms of its files. It is "" without git.
func GitUser(env *Env) (name, email string) {
	cmd := safeGit(context.Background(), env, "/", "config", "--global", "--includes", "--null", "--get-regexp", `^user\.(name|email)$`)
	cmd.Dir = "/" // so that no repository counts
	out, err := cmd.Output()
	if err != nil {
		return "", ""
	}
	for setting := range strings.SplitSeq(string(out), "\x00") {
		key, value, _ := strings.Cut(setting, "\n")
		if strings.ContainsFunc(value, readable.IsDeceptive) {
			value = "" // it could do something to a terminal
		}
		switch key {
		case "user.name":
			name = value
		case "user.email":
			email = value
		}
	}
	return name, email
}

// author returns the name and address of the author: those of the environment, or else those
// of the configuration (the arguments, which may be empty), or else git's, or else those of
// the user of this machine. There is always a result, because a backup on a server has
// no user to ask.
func author(env *Env, name, email string) (string, string) {
	if v := env.Getenv("KIST_AUTHOR_NAME"); v != "" {
		name = v
	}
	if v := env.Getenv("KIST_AUTHOR_EMAIL"); v != "" {
		email = v
	}
	if name != "" && email != "" {
		return name, email
	}

	git := &env.Identity
	if !git.read && git.Git != nil {
		git.name, git.email = git.Git(env)
	}
	git.read = true
	fromGit := name == "" && git.name != "" || email == "" && git.email != ""
	if name == "" {
		if name = git.name; name == "" {
			name = env.Username()
		}
	}
	if email == "" {
		if email = git.email; email == "" {
			email = env.Username() + "@" + env.Hostname
		}
	}
	if fromGit {
		git.used = name + " <" + email + ">"
	}
	return name, email
}

// noteIdentity says, once in the life of a repository, that the identity is from git's
// configuration.
func noteIdentity(e *Env, r *kist.Repository) {
	file := filepath.Join(r.Dir(), "identity")
	used := e.Identity.used
	if used == "" || e.Global.Quiet || ReadNote(file) != "" {
		return
	}
	e.Info("your name is that of git's configuration, %s; 'kist config --global user.name' and 'user.email' set another", Printable(used))
	if err := WriteNote(file, used); err != nil {
		e.Verbose("%v", err)
	}
}
