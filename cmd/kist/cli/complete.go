package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// proposals are what can stand where the shell completes a word that begins
// with prefix. Those that end in "/" or ":" are not whole yet.
type proposals func(ctx context.Context, env *Env, r *kist.Repository, prefix string) []string

// complete returns a function for cobra that proposes what all of from do. It
// is a favour: where something cannot be read, nothing is proposed.
func (e *Env) complete(from ...proposals) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		directive := cobra.ShellCompDirectiveNoFileComp
		r, err := e.open()
		if err != nil {
			return nil, directive
		}
		defer r.Close()
		var list []cobra.Completion
		for _, propose := range from {
			for _, word := range propose(cmd.Context(), e, r, prefix) {
				if !strings.HasPrefix(word, prefix) || strings.ContainsFunc(word, deceptive) {
					continue
				}
				if strings.HasSuffix(word, "/") || strings.HasSuffix(word, ":") {
					directive |= cobra.ShellCompDirectiveNoSpace
				}
				list = append(list, word)
			}
		}
		return list, directive
	}
}

// completeNth returns a function for cobra that completes every argument by
// the function in its place, and those beyond by the last one.
func completeNth(by ...cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return by[min(len(args), len(by)-1)](cmd, args, prefix)
	}
}

// branches proposes the local branches.
func branches(_ context.Context, _ *Env, r *kist.Repository, _ string) []string {
	return refNames(r, refs.Heads)
}

// tags proposes the tags.
func tags(_ context.Context, _ *Env, r *kist.Repository, _ string) []string {
	return refNames(r, refs.Tags)
}

// remoteBranches proposes the branches of remotes, as in origin/main.
func remoteBranches(_ context.Context, _ *Env, r *kist.Repository, _ string) []string {
	return refNames(r, refs.Remotes)
}

func refNames(r *kist.Repository, below string) []string {
	list, _ := r.Refs().List(below) // damaged refs do not hide the others
	names := make([]string, len(list))
	for i, ref := range list {
		names[i] = strings.TrimPrefix(ref.Name, below)
	}
	return names
}

// revisions proposes names of commits, also behind "^" and "A..".
func revisions(ctx context.Context, env *Env, r *kist.Repository, prefix string) []string {
	before := ""
	if i := strings.LastIndex(prefix, ".."); i >= 0 {
		before = prefix[:i+2]
	} else if strings.HasPrefix(prefix, "^") {
		before = "^"
	}
	names := []string{"HEAD"}
	for _, propose := range []proposals{branches, tags, remoteBranches} {
		names = append(names, propose(ctx, env, r, prefix)...)
	}
	for i := range names {
		names[i] = before + names[i]
	}
	return names
}

// trackedPaths proposes what is staged, a folder at a time.
func trackedPaths(_ context.Context, env *Env, r *kist.Repository, prefix string) []string {
	typed, dir, err := env.completedDir(r, prefix)
	if err != nil {
		return nil
	}
	idx, err := r.Index()
	if err != nil {
		return nil
	}
	d := idx.Dir(dir)
	if d == nil {
		return nil
	}
	var names []string
	for entry, sub := range d.Children() {
		if sub != nil {
			names = append(names, typed+sub.Name()+"/")
		} else {
			names = append(names, typed+entry.Name)
		}
	}
	return names
}

// treePaths proposes REV:PATH, a folder at a time, and before the colon REV.
func treePaths(ctx context.Context, env *Env, r *kist.Repository, prefix string) []string {
	rev, path, hasPath := refs.SplitPath(prefix)
	if !hasPath {
		names := revisions(ctx, env, r, prefix)
		for i := range names {
			names[i] += ":"
		}
		return names
	}
	typed := rev + ":" + path[:strings.LastIndexByte(path, '/')+1]
	at, err := env.locate(ctx, r, typed)
	if err != nil || at.entry.Type != object.TypeDir {
		return nil
	}
	var names []string
	for e, err := range object.Entries(ctx, at.objects, at.entry.Content.ID) {
		if err != nil {
			return nil
		}
		name := typed + e.Name
		if e.Type == object.TypeDir {
			name += "/"
		}
		names = append(names, name)
	}
	return names
}

// completedDir returns the folder in which a path that is being typed is
// completed: as it was typed, and as a path of the repository.
func (e *Env) completedDir(r *kist.Repository, prefix string) (typed, dir string, err error) {
	typed = prefix[:strings.LastIndexByte(prefix, '/')+1]
	if typed == "" {
		dir, err = e.repoPath(r, ".")
	} else {
		dir, err = e.repoPath(r, typed)
	}
	return typed, dir, err
}
