package convert

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/work/convert"
)

type importGitOptions struct {
	branches, excluded []string // patterns
}

func newImportGit(env *cli.Env) *cobra.Command {
	var o importGitOptions
	cmd := &cobra.Command{
		Use:   "git DIR",
		Short: "import the history of a git repository",
		Long: `Makes a kist commit of each commit that a branch or tag of the git repository
DIR reaches. Authors, dates, messages and files stay the same. kist creates or
moves the same branches and tags here. If the current branch has no commit yet,
and git has a branch of its name, kist checks it out.

DIR '-' is standard input: the output of 'git fast-export --use-done-feature'.
Otherwise kist runs git, without the hooks and programs that DIR configures.
Import again to get new commits: nothing is stored twice. If a branch has other
commits here, or is checked out and would move, nothing is imported.

Signatures, notes and submodules are left out. Files have no modification times.
A name, path or message that kist cannot have does not stop the import: it is
left out or repaired, and listed. The exit status is then 3.

Files of git-lfs come with their content, from the folder where git-lfs keeps
it: run 'git lfs fetch --all' before. If it is missing there, the pointer is
imported and listed. Links of git-annex are imported as links, and listed.

PATTERN is a name such as main, v1.* or refs/tags/old-*. These options may be
repeated.`,
		Example: `  kist import git ../project
  git -C project fast-export --use-done-feature --all | kist import git -`,
		Args: cli.Arguments(1, 1, "DIR"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	env.Prints(cmd, "", importedGitJSON{})
	env.InRepository(cmd, o.run, cli.ExitPartial)
	cmd.Flags().StringArrayVarP(&o.branches, "branch", "b", nil, "only branches that match `PATTERN`, with their tags")
	cmd.Flags().StringArrayVar(&o.excluded, "exclude-ref", nil, "leave out branches and tags that match `PATTERN`")
	return cmd
}

// importedGitJSON is what import git prints with --json.
type importedGitJSON struct {
	Commits int                `json:"commits" doc:"the number of commits"`
	Refs    []gitRefJSON       `json:"refs" doc:"the branches and tags"`
	Stored  int64              `json:"bytes_stored" doc:"the bytes that were stored"`
	Skipped []jsonform.Skipped `json:"skipped" doc:"paths that were left out"`
	Signed  int                `json:"signatures" doc:"the number of signatures, which are left out"`
	LeftOut []jsonform.Skipped `json:"left_out" doc:"refs that were left out; path is the name"`
	Changed []jsonform.Skipped `json:"changed" doc:"commits and tags that differ from those in git; path is the name"`
}

type gitRefJSON struct {
	Name string `json:"name" doc:"the full name"`
	ID   string `json:"id" doc:"its commit or tag"`
}

func (o *importGitOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	p := env.Progress("importing")
	defer p.Stop()
	found, err := o.importGit(ctx, env, r, args[0], convert.GitOptions{Progress: p.Amounts()})
	p.Stop()
	if err != nil {
		return err
	}
	if env.Global.JSON {
		list := make([]gitRefJSON, len(found.Refs))
		for i, c := range found.Refs {
			list[i] = gitRefJSON{c.Name, c.New.String()}
		}
		env.JSON(importedGitJSON{found.Commits, list, found.Stats.StoredBytes, jsonform.NewSkipped(found.Skipped), found.Signatures, jsonform.NewSkipped(found.LeftOut), jsonform.NewSkipped(found.Changed)})
		return unlikeGit(env, r, found)
	}
	for _, c := range found.Refs {
		env.Printf("%s %s\n", c.New.String()[:8], c.Name)
	}
	env.Info("read %s; %s stored", readable.Plural(uint64(found.Commits), "commit", "commits"), readable.FormatSize(uint64(found.Stats.StoredBytes)))
	tellDropped(env, found.Signatures)
	if found.Head != "" {
		env.Info("on branch %s", cli.QuoteArg(found.Head))
	}
	return unlikeGit(env, r, found)
}

// unlikeGit returns the error that lists everything that is not as in git.
func unlikeGit(env *cli.Env, r *kist.Repository, found *convert.GitImport) error {
	var lines []string
	var counts []string
	add := func(list []object.Skipped, one, more string, show func(object.Skipped) string) {
		if n := uint64(len(list)); n > 0 {
			counts = append(counts, readable.Plural(n, one, more))
			lines = append(lines, cli.FirstOf(list, cli.DetailLines, "", show)...)
		}
	}
	named := func(s object.Skipped) string { return cli.Printable(s.Path) + ": " + cli.Printable(s.Reason) }
	add(found.LeftOut, "ref was left out", "refs were left out", named)
	add(found.Changed, "object was changed", "objects were changed", named)
	add(found.Skipped, "path was skipped", "paths were skipped", func(s object.Skipped) string { return cli.ShownSkipped(env, r, s) })
	if len(counts) == 0 {
		return nil
	}
	return cli.LinesError(cli.ExitPartial, "", strings.Join(counts, ", "), lines)
}

// importGit imports the git repository in a folder, or the stream on standard input.
func (o *importGitOptions) importGit(ctx context.Context, env *cli.Env, r *kist.Repository, dir string, g convert.GitOptions) (*convert.GitImport, error) {
	if dir == "-" {
		if len(o.branches)+len(o.excluded) > 0 {
			return nil, cli.Usagef("--branch and --exclude-ref need a repository: 'git fast-export' chooses the refs of a stream")
		}
		return convert.ImportGit(ctx, r, env.Stdin, g)
	}
	if err := cli.WantFolder("import git", dir); err != nil {
		return nil, err
	}
	exporting, cancel := context.WithCancel(ctx)
	defer cancel()
	refs, left, err := o.gitRefs(ctx, env, env.Path(dir))
	if err != nil {
		return nil, err
	}
	g.Expect = refs
	lfs, err := lfsFolder(ctx, env, env.Path(dir))
	if err != nil {
		return nil, err
	}
	g.LFS = func(sum string) (io.ReadCloser, error) { return openLFS(lfs, sum) }

	// The full names on standard input are never ambiguous, and are no options.
	git := cli.NewGit(exporting, env, env.Path(dir), "-C", env.Path(dir), "fast-export", "--use-done-feature", "--signed-tags=verbatim",
		"--tag-of-filtered-object=drop", "--reencode=no", "--mark-tags", "--show-original-ids", "--stdin")
	git.Stdin = strings.NewReader(strings.Join(append(refs, ""), "\n"))
	stream, err := cli.Start(git, git.StdoutPipe)
	if err != nil {
		return nil, err
	}
	found, err := convert.ImportGit(ctx, r, stream, g)
	if errors.Is(err, convert.ErrIncomplete) {
		return nil, cmp.Or(git.WaitForEnd(), err)
	}
	cancel() // if git still writes
	_ = git.WaitForEnd()
	if err != nil {
		return nil, err
	}
	found.LeftOut = append(left, found.LeftOut...)
	signed, err := countSigned(ctx, env, env.Path(dir), refs)
	found.Signatures += signed
	return found, err
}

// countSigned returns the number of signed commits that refs of git reach. Most versions of git
// leave them out of the stream without a word.
func countSigned(ctx context.Context, env *cli.Env, dir string, refs []string) (int, error) {
	git := cli.NewGit(ctx, env, dir, "-C", dir, "rev-list", "--header", "--stdin")
	git.Stdin = strings.NewReader(strings.Join(append(refs, ""), "\n"))
	out, err := cli.Start(git, git.StdoutPipe)
	if err != nil {
		return 0, err
	}
	n, header, inLine := 0, true, false
	for in := bufio.NewReader(out); err == nil; {
		var part []byte
		part, err = in.ReadSlice('\n')
		switch {
		case bytes.IndexByte(part, 0) >= 0: // the end of a commit
			header = true
		case inLine:
		case string(part) == "\n":
			header = false
		case header && bytes.HasPrefix(part, []byte("gpgsig")):
			n, header = n+1, false // perhaps there is a second one, for git's other hash
		}
		if inLine = errors.Is(err, bufio.ErrBufferFull); inLine {
			err = nil
		}
	}
	return n, git.WaitForEnd()
}

// tellDropped says that signatures were left out.
func tellDropped(env *cli.Env, n int) {
	if n > 0 {
		env.Info("%s left out: the other form of a commit has no place for it", readable.Plural(uint64(n), "signature was", "signatures were"))
	}
}

// gitRefs returns the full names of the branches and tags to import, and the refs that name
// no commit.
func (o *importGitOptions) gitRefs(ctx context.Context, env *cli.Env, dir string) (names []string, left []object.Skipped, err error) {
	places := [][]string{{"refs/heads/", "refs/tags/"}}
	if len(o.branches) > 0 {
		merged := []string{"refs/tags/"} // tags come along with the history of the chosen branches
		lines, err := gitLines(ctx, env, dir, "for-each-ref", "--format=%(refname)", "refs/heads/")
		if err != nil {
			return nil, nil, err
		}
		var branches []string
		for _, pattern := range o.branches {
			matching := slices.DeleteFunc(slices.Clone(lines), func(name string) bool { return !matchesRef(pattern, name) })
			if len(matching) == 0 {
				return nil, nil, cli.Failf(cli.ExitFailed, "not-found", "git has no branch %s", cli.QuoteArg(pattern))
			}
			branches = append(branches, matching...)
		}
		for _, name := range branches {
			merged = append(merged, "--merged="+name)
		}
		places = [][]string{branches, merged}
	}

	seen := map[string]bool{}
	for _, place := range places {
		lines, err := gitLines(ctx, env, dir, append([]string{"for-each-ref", "--format=%(refname)%00%(symref)%00%(objecttype)%00%(*objecttype)"}, place...)...)
		if err != nil {
			return nil, nil, err
		}
		for _, line := range lines {
			f := strings.Split(line, "\x00")
			if len(f) != 4 || seen[f[0]] || slices.ContainsFunc(o.excluded, func(pattern string) bool { return matchesRef(pattern, f[0]) }) {
				continue
			}
			seen[f[0]] = true
			switch kind := cmp.Or(f[3], f[2]); {
			case f[1] != "":
				left = append(left, object.Skipped{Path: f[0], Reason: "another name for " + f[1]})
			case kind != "commit" && kind != "tag":
				left = append(left, object.Skipped{Path: f[0], Reason: "it names a " + kind + ", no commit"})
			default:
				names = append(names, f[0])
			}
		}
	}
	return names, left, nil
}

// gitLines runs git and returns the lines of its output.
func gitLines(ctx context.Context, env *cli.Env, dir string, args ...string) ([]string, error) {
	git := cli.NewGit(ctx, env, dir, append([]string{"-C", dir}, args...)...)
	var out bytes.Buffer
	git.Stdout = &out
	if _, err := cli.Start(git, git.StdinPipe); err != nil {
		return nil, err
	}
	if err := git.WaitForEnd(); err != nil {
		return nil, err
	}
	return strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' }), nil
}

// matchesRef reports whether a pattern matches the full name of a branch or tag, or its short
// name. A star also matches slashes.
func matchesRef(pattern, name string) bool {
	plain := strings.NewReplacer("/", "\x00")
	for _, prefix := range []string{"", "refs/", "refs/heads/", "refs/tags/"} {
		short, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if matched, err := path.Match(plain.Replace(pattern), plain.Replace(short)); matched && err == nil {
			return true
		}
	}
	return false
}
