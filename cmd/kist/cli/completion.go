package cli

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/refs"
)

// ProposalsCmd is the command that these scripts run for proposals. It is cobra's request
// for completions, but the answer may have words that need quotes. A request by cobra's
// own name may come from one of cobra's scripts, which can take plain words only.
const ProposalsCmd = "__proposals"

// proposals returns the words that begin with prefix. A word that ends in "/",
// ":" or "=" is not complete yet.
type proposals func(ctx context.Context, env *Env, r *kist.Repository, prefix string) []string

// completion describes a shell's request for proposals. It is zero in other commands.
type completion struct {
	asked  bool // this is a request
	quotes bool // the shell's script quotes the words that it inserts
	dashed bool // "--" comes before the word to complete
}

// requestArgs notes the request in args, the arguments of kist, and returns them in cobra's
// form.
func (c *completion) requestArgs(args []string) []string {
	if len(args) == 0 {
		return args
	}
	c.quotes = args[0] == ProposalsCmd
	c.asked = c.quotes || args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd
	if !c.asked {
		return args
	}
	c.dashed = slices.Contains(args[1:max(1, len(args)-1)], "--")
	if c.quotes {
		args = append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	}
	return args
}

// Offer returns the words that are safe for a shell. All words that come from a repository
// pass through it. A word must be one line of text that does
// nothing to a terminal, and must not be taken for an option. If the script
// may be one that evaluates words, they must mean nothing to a shell.
func (c *completion) Offer(words []string) []cobra.Completion {
	var list []cobra.Completion
	for _, word := range words {
		switch {
		case word != strings.TrimSpace(word), !utf8.ValidString(word), strings.ContainsFunc(word, readable.IsDeceptive):
		case strings.HasPrefix(word, "-") && !c.dashed:
		case !c.quotes && (strings.HasPrefix(word, "~") || strings.ContainsFunc(word, isShellSpecial)):
		default:
			list = append(list, word)
		}
	}
	return list
}

// isShellSpecial reports whether a letter may mean something to a shell.
func isShellSpecial(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:@%+,^~", r)
}

// completeValues makes the shell complete the values of cmd's options by the placeholders
// in their descriptions. An option with proposals of its own keeps them. It also removes
// the quotes around the placeholders.
func completeValues(env *Env, cmd *cobra.Command) {
	set := func(flag *pflag.Flag) {
		var placeholder string
		placeholder, flag.Usage = pflag.UnquoteUsage(flag)

		if _, ok := cmd.GetFlagCompletionFunc(flag.Name); !ok {
			Must(cmd.RegisterFlagCompletionFunc(flag.Name, proposalsFor(env, flag.Value, placeholder)))
		}
	}
	cmd.Flags().VisitAll(set)
	cmd.PersistentFlags().VisitAll(set)
}

// Propose makes the shell complete the values of an option by fn. Cobra keeps each such
// function, and with it the command, as long as the process lives.
func Propose(e *Env, cmd *cobra.Command, option string, fn cobra.CompletionFunc) {
	if e.Completion.asked {
		Must(cmd.RegisterFlagCompletionFunc(option, fn))
	}
}

// proposalsFor returns the proposals for a value of an option with this placeholder.
func proposalsFor(e *Env, value pflag.Value, placeholder string) cobra.CompletionFunc {
	if c, ok := value.(*Choice); ok {
		return OneOf(c.Choices...)
	}
	switch placeholder {
	case "FILE":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	case "DIR":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case "REV":
		return e.Complete(Revisions)
	case "BRANCH":
		return e.Complete(Branches)
	case "UPSTREAM":
		return e.Complete(remoteBranches)
	}
	return cobra.NoFileCompletions
}

// OneOf proposes a few words.
func OneOf(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// Complete returns a function for cobra with the proposals of all of from. Data that cannot
// be read is no error: there are no proposals from it.
func (e *Env) Complete(from ...proposals) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		directive := cobra.ShellCompDirectiveNoFileComp
		r, err := e.Open()
		if err != nil {
			return nil, directive
		}
		defer r.Close()
		var words []string
		for _, propose := range from {
			for _, word := range propose(cmd.Context(), e, r, prefix) {
				if strings.HasPrefix(word, prefix) {
					words = append(words, word)
				}
			}
		}
		list := e.Completion.Offer(words)
		for _, word := range list {
			if strings.HasSuffix(word, "/") || strings.HasSuffix(word, ":") || strings.HasSuffix(word, "=") {
				directive |= cobra.ShellCompDirectiveNoSpace
			}
		}
		return list, directive
	}
}

// CompleteUntilDash is complete, but after "--" it proposes only tracked paths.
func (e *Env) CompleteUntilDash(from ...proposals) cobra.CompletionFunc {
	if e.Completion.dashed {
		from = []proposals{TrackedPaths}
	}
	return e.Complete(from...)
}

// CompleteNth returns a function for cobra that completes argument n by the function at
// place n, and further arguments by the last one.
func CompleteNth(by ...cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return by[min(len(args), len(by)-1)](cmd, args, prefix)
	}
}

// Proposals of refs; a remote's branch is as in origin/main.
var (
	Branches       = refsBelow(refs.Heads)
	Tags           = refsBelow(refs.Tags)
	remoteBranches = refsBelow(refs.Remotes)
)

func refsBelow(prefix string) proposals {
	return func(_ context.Context, _ *Env, r *kist.Repository, _ string) []string { return RefNames(r, prefix) }
}

func RefNames(r *kist.Repository, below string) []string {
	list, _ := r.Refs().List(below) // damaged refs do not hide the others
	names := make([]string, len(list))
	for i, ref := range list {
		names[i] = strings.TrimPrefix(ref.Name, below)
	}
	return names
}

// Revisions proposes names of commits, also behind "^" and "A..".
func Revisions(ctx context.Context, env *Env, r *kist.Repository, prefix string) []string {
	before := ""
	if i := strings.LastIndex(prefix, ".."); i >= 0 {
		before = prefix[:i+2]
	} else if strings.HasPrefix(prefix, "^") {
		before = "^"
	}
	names := []string{"HEAD"}
	for _, propose := range []proposals{Branches, Tags, remoteBranches} {
		names = append(names, propose(ctx, env, r, prefix)...)
	}
	for i := range names {
		names[i] = before + names[i]
	}
	return names
}

// TrackedPaths proposes paths of the index, a folder at a time.
func TrackedPaths(_ context.Context, env *Env, r *kist.Repository, prefix string) []string {
	typed, dir, err := env.completedDir(r, prefix)
	if err != nil {
		return nil
	}
	idx, err := r.Index()
	if err != nil || idx.Dir(dir) == nil {
		return nil
	}

	var names []string
	for entry, sub := range idx.Dir(dir).Children() {
		if sub != nil {
			names = append(names, typed+sub.Name()+"/")
		} else {
			names = append(names, typed+entry.Name)
		}
	}
	return names
}

// WorktreePaths proposes files and folders of the worktree, a folder at a time.
func WorktreePaths(_ context.Context, env *Env, r *kist.Repository, prefix string) []string {
	typed, dir, err := env.completedDir(r, prefix)
	if err != nil {
		return nil
	}
	path := filepath.Join(r.Root(), filepath.FromSlash(dir))
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil
	}
	entries, _ := os.ReadDir(path)
	var names []string
	for _, entry := range entries {
		if entry.Name() != kist.Dir {
			names = append(names, typed+Folded(entry.Name(), entry.IsDir()))
		}
	}
	return names
}

// completedDir returns the folder of a path that is being typed: as it was typed, and as a
// path of the repository.
func (e *Env) completedDir(r *kist.Repository, prefix string) (typed, dir string, err error) {
	typed = prefix[:strings.LastIndexByte(prefix, '/')+1]
	dir, err = e.RepoPath(r, cmp.Or(typed, "."))
	return typed, dir, err
}

// Folded returns a path, with a slash at its end for a folder.
func Folded(path string, folder bool) string {
	if !folder {
		return path
	}
	return cmp.Or(path, ".") + "/"
}
