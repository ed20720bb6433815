package look

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/work/stage"
)

type revParseOptions struct {
	verify, abbrevRef, fullName, gitDir bool
	short                               int      // digits; 0: full IDs
	facts                               []string // names in revParseFacts, as they were given
}

// revParseFacts are the options of rev-parse that print a fact about the repository.
var revParseFacts = []struct {
	name, usage string
	value       func(env *cli.Env, r *kist.Repository) (string, error)
}{
	{"show-toplevel", "print the root of the worktree", func(_ *cli.Env, r *kist.Repository) (string, error) {
		if r.IsBare() {
			return "", kist.ErrBare
		}
		return r.Root(), nil
	}},
	{"show-prefix", "print the current folder relative to the root, with a slash at the end", func(env *cli.Env, r *kist.Repository) (string, error) {
		path, err := env.RepoPath(r, ".")
		if path != "" {
			path += "/"
		}
		return path, err
	}},
	{"kist-dir", "print the path of the folder .kist", func(_ *cli.Env, r *kist.Repository) (string, error) { return r.Dir(), nil }},
	{"is-inside-work-tree", "print whether the current folder is in the worktree", func(env *cli.Env, r *kist.Repository) (string, error) {
		_, err := env.RepoPath(r, ".")
		return strconv.FormatBool(err == nil && !r.IsBare()), nil
	}},
	{"is-bare-repository", "print whether the repository has no worktree", func(_ *cli.Env, r *kist.Repository) (string, error) {
		return strconv.FormatBool(r.IsBare()), nil
	}},
}

func NewRevParse(env *cli.Env) *cobra.Command {
	var o revParseOptions
	cmd := &cobra.Command{
		Use:   "rev-parse [OPTIONS] [REV]...",
		Short: "print the IDs that revisions name",
		Long: `Prints the ID of each REV on a line of its own. A REV may also be an annotated
tag, which has an ID of its own, REV^{tree}, REV:PATH, :PATH, ^REV, A..B or
A...B. The IDs of excluded commits begin with ^.

--show-toplevel and the options below it print a fact about the repository, in
the order in which they are given, before the REVs.`,
		Example: `  kist rev-parse HEAD                    the ID of the current commit
  kist rev-parse --short main~2          its first digits
  kist rev-parse --abbrev-ref HEAD       the name of the current branch
  kist rev-parse --verify -q v9          is there a v9?
  kist rev-parse --show-toplevel         where the worktree begins`,
		ValidArgsFunction: env.Complete(cli.Revisions),
	}
	env.Prints(cmd, "for each ID", parsedJSON{})
	env.Prints(cmd, "for each fact", factJSON{})
	env.InRepository(cmd, o.run)
	flags := cmd.Flags()
	flags.BoolVar(&o.verify, "verify", false, "REV must be one that names one object; with -q, fail without a message")
	flags.IntVar(&o.short, "short", 0, "like --verify, and print only the first `N` digits, or more if others begin with them")
	flags.Lookup("short").NoOptDefVal = strconv.Itoa(len(object.ID{}.Short()))
	flags.BoolVar(&o.abbrevRef, "abbrev-ref", false, "print the short name of a branch or tag instead of its ID")
	flags.BoolVar(&o.fullName, "symbolic-full-name", false, "print the full name of a branch or tag instead of its ID")
	for _, fact := range revParseFacts {
		cli.WithoutValue(flags, fact.name, fact.usage, func() error { o.facts = append(o.facts, fact.name); return nil })
	}
	flags.BoolVar(&o.gitDir, "git-dir", false, "")
	cli.Must(flags.MarkHidden("git-dir"))
	cmd.MarkFlagsMutuallyExclusive("abbrev-ref", "symbolic-full-name", "short")
	return cmd
}

// parsedJSON is an ID as rev-parse prints it with --json.
type parsedJSON struct {
	Rev      string    `json:"rev" doc:"the argument"`
	ID       object.ID `json:"id" doc:"the ID"`
	Kind     string    `json:"kind" doc:"the kind of the object: commit, tag, tree, file or another one"`
	Excluded bool      `json:"excluded,omitempty" doc:"true for a commit that is left out, as in ^REV"`
	Ref      string    `json:"ref,omitempty" doc:"the full name, if REV is the name of a ref"`
}

// factJSON is a fact as rev-parse prints it with --json.
type factJSON struct {
	Name  string `json:"name" doc:"the name of the fact"`
	Value string `json:"value" doc:"its value"`
}

func (o *revParseOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if o.gitDir {
		return cli.Hintf(cli.Usagef("--git-dir is an option of git"), "--kist-dir prints the path of the folder .kist")
	}
	for _, name := range o.facts {
		for _, fact := range revParseFacts {
			if fact.name != name {
				continue
			}
			value, err := fact.value(env, r)
			if err != nil {
				return err
			}
			if env.Global.JSON {
				env.JSON(factJSON{name, value})
			} else {
				env.Printf("%s\n", cli.Printable(value))
			}
		}
	}

	single := o.verify || o.short != 0
	var all []parsedJSON
	for _, arg := range args {
		parsed, err := parseRev(ctx, env, r, arg)
		if errors.Is(err, refs.ErrNotFound) && single && env.Global.Quiet {
			return cli.Quiet(cli.ExitFailed)
		}
		if err != nil {
			return err
		}
		all = append(all, parsed...)
	}
	if single && len(all) != 1 {
		return cli.Usagef("--verify and --short need one revision that names one object")
	}

	for _, p := range all {
		if err := o.printResult(ctx, env, r, p); err != nil {
			return err
		}
	}
	return nil
}

// parseRev returns the objects that an argument of rev-parse names.
func parseRev(ctx context.Context, env *cli.Env, r *kist.Repository, arg string) ([]parsedJSON, error) {
	from, to, symmetric, isRange := refs.SplitRange(arg)
	one, suffix, _ := refs.SplitParents(arg)
	switch {
	case isRange:
		b, err := parseObject(ctx, env, r, to, false)
		if err != nil {
			return nil, err
		}
		a, err := parseObject(ctx, env, r, from, !symmetric)
		if err != nil || !symmetric {
			return []parsedJSON{b, a}, err
		}
		_, bases, err := log.ParseRange(ctx, r, arg)
		return append([]parsedJSON{b, a}, parsedCommits(arg, bases, true)...), err
	case suffix != "":
		starts, exclude, err := log.ParseRange(ctx, r, arg)
		if err != nil || suffix == "^@" {
			return parsedCommits(arg, starts, false), err
		}
		p, err := parseObject(ctx, env, r, one, false)
		return append([]parsedJSON{p}, parsedCommits(arg, exclude, true)...), err
	}
	rev, excluded := strings.CutPrefix(arg, "^")
	p, err := parseObject(ctx, env, r, rev, excluded)
	return []parsedJSON{p}, err
}

func parsedCommits(arg string, ids []object.ID, excluded bool) []parsedJSON {
	var list []parsedJSON
	for _, id := range ids {
		list = append(list, parsedJSON{Rev: arg, ID: id, Kind: object.KindCommit.String(), Excluded: excluded})
	}
	return list
}

// parseObject returns the object that a revision, REV:PATH, :PATH or FILE@N names.
func parseObject(ctx context.Context, env *cli.Env, r *kist.Repository, rev string, excluded bool) (parsedJSON, error) {
	p := parsedJSON{Rev: rev, Excluded: excluded}
	if input.NamesEntry(ctx, env, r, rev) {
		at, err := input.Locate(ctx, env, r, rev)
		if p.ID, p.Kind = tree.ContentID(&at.Entry), "file"; at.Entry.Type == object.TypeDir {
			p.Kind = object.KindTree.String()
		}
		return p, err
	}
	key, err := refs.ResolveObject(ctx, r.Refs(), r.Objects(), rev)
	if err != nil {
		return p, input.MeantPath(env, r, rev, err)
	}
	p.ID, p.Kind = key.ID, key.Kind.String()
	if name, err := r.Refs().Expand(ctx, rev); err == nil {
		if p.Ref = name; name == "HEAD" {
			if head, err := r.Refs().Head(); err == nil && head.Branch != "" {
				p.Ref = refs.Heads + head.Branch
			}
		}
	}
	return p, nil
}

func (o *revParseOptions) printResult(ctx context.Context, env *cli.Env, r *kist.Repository, p parsedJSON) error {
	if env.Global.JSON {
		env.JSON(p)
		return nil
	}
	text := p.ID.String()
	switch {
	case (o.abbrevRef || o.fullName) && p.Ref == "":
		return nil // as in git
	case o.fullName:
		text = cli.Printable(p.Ref)
	case o.abbrevRef:
		name, err := unambiguous(r, p.Ref)
		if err != nil {
			return err
		}
		text = cli.Printable(name)
	case o.short > 0:
		var err error
		if text, err = refs.Abbreviate(ctx, r.Objects(), p.ID, o.short); err != nil {
			return err
		}
	}
	if p.Excluded {
		text = "^" + text
	}
	env.Printf("%s\n", text)
	return nil
}

// unambiguous returns the shortest name that stands for a ref, given its full name.
func unambiguous(r *kist.Repository, full string) (string, error) {
	for _, name := range []string{cli.ShortRef(full), strings.TrimPrefix(full, "refs/")} {
		found, err := r.Refs().Candidates(name)
		if err != nil {
			return "", err
		}
		if len(found) > 0 && found[0] == full {
			return name, nil
		}
	}
	return full, nil
}

type mergeBaseOptions struct{ all, isAncestor bool }

func NewMergeBase(env *cli.Env) *cobra.Command {
	var o mergeBaseOptions
	cmd := &cobra.Command{
		Use:   "merge-base [OPTIONS] A B...",
		Short: "print the best common ancestor of commits",
		Long: `Prints the ID of the best common ancestor of A and B: one that is not an
ancestor of another common ancestor. Several Bs count as one commit that merges
them. If there is no common ancestor, the exit status is 1.`,
		Example: `  kist merge-base main topic                 where topic began
  kist merge-base --is-ancestor v1 main && echo 'main has v1'`,
		Args:              cli.Arguments(2, -1, "A", "B"),
		ValidArgsFunction: env.Complete(cli.Revisions),
	}
	env.Prints(cmd, "", basesJSON{})
	env.Prints(cmd, "with --is-ancestor", ancestorJSON{})
	env.InRepository(cmd, o.run)
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "print all best common ancestors, the newest first")
	cmd.Flags().BoolVar(&o.isAncestor, "is-ancestor", false, "print nothing; the exit status is 0 if A is B or an ancestor of B, otherwise 1")
	cmd.MarkFlagsMutuallyExclusive("all", "is-ancestor")
	return cmd
}

// basesJSON and ancestorJSON are what merge-base prints with --json.
type basesJSON struct {
	Bases []object.ID `json:"bases" doc:"the merge bases, all of them even without --all"`
}

type ancestorJSON struct {
	Ancestor bool `json:"ancestor" doc:"true if A is an ancestor of B"`
}

func (o *mergeBaseOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	var ids []object.ID
	for _, arg := range args {
		id, err := r.Resolve(ctx, arg)
		if err != nil {
			return input.MeantPath(env, r, arg, err)
		}
		ids = append(ids, id)
	}

	if o.isAncestor {
		if len(ids) > 2 {
			return cli.Usagef("--is-ancestor takes two commits")
		}
		is, err := history.IsAncestor(ctx, r.Objects(), ids[0], ids[1])
		if err != nil {
			return err
		}
		env.JSON(ancestorJSON{is})
		if !is {
			return cli.Quiet(cli.ExitFailed)
		}
		return nil
	}

	bases, err := history.MergeBases(ctx, r.Objects(), ids[0], ids[1:]...)
	if err != nil {
		return err
	}
	env.JSON(basesJSON{append([]object.ID{}, bases...)})
	if len(bases) == 0 {
		return cli.Quiet(cli.ExitFailed)
	}
	if !o.all {
		bases = bases[:1]
	}
	if !env.Global.JSON {
		for _, id := range bases {
			env.Printf("%s\n", id)
		}
	}
	return nil
}

type describeOptions struct {
	tags, all, always, long, exact bool
	abbrev, candidates             int
	dirty                          string
	match, exclude                 []string
}

func NewDescribe(env *cli.Env) *cobra.Command {
	var o describeOptions
	cmd := &cobra.Command{
		Use:   "describe [OPTIONS] [REV]...",
		Short: "name a commit by the nearest tag before it",
		Long: `Prints the name of the nearest annotated tag that each REV, by default HEAD,
reaches. If the tag is of an earlier commit, the number of commits after it
follows, and the first digits of the ID: v1.2-14-g3fa9c1d2. This is a revision,
too.

A pattern is one as in 'kist tag --list'.`,
		Example: `  kist describe                       the version of the current commit
  kist describe --tags --dirty        use all tags; mark local changes
  kist describe --match 'v[0-9]*'     only tags of versions`,
		ValidArgsFunction: env.Complete(cli.Revisions),
	}
	env.Prints(cmd, "for each REV", describedJSON{})
	env.InRepository(cmd, o.run)
	flags := cmd.Flags()
	flags.BoolVar(&o.tags, "tags", false, "use tags without a message, too")
	flags.BoolVar(&o.all, "all", false, "use all tags and branches, and print which")
	flags.BoolVar(&o.always, "always", false, "if there is no name, print the first digits of the ID")
	flags.BoolVar(&o.long, "long", false, "print the number and the ID also for the commit of a tag")
	flags.BoolVar(&o.exact, "exact-match", false, "only a tag of the commit itself")
	flags.IntVar(&o.abbrev, "abbrev", len(object.ID{}.Short()), "print at least `N` digits of the ID; 0: only the name")
	flags.IntVar(&o.candidates, "candidates", 10, "compare the `N` newest tags; 0 is --exact-match")
	flags.StringVar(&o.dirty, "dirty", "", "describe HEAD, with `MARK` (by default -dirty) added if tracked files have changes")
	flags.Lookup("dirty").NoOptDefVal = "-dirty"
	flags.StringArrayVar(&o.match, "match", nil, "only names that fit `PATTERN`")
	flags.StringArrayVar(&o.exclude, "exclude", nil, "no names that fit `PATTERN`")
	return cmd
}

// describedJSON is a commit as describe prints it with --json.
type describedJSON struct {
	Rev      string    `json:"rev" doc:"the argument"`
	ID       object.ID `json:"id" doc:"the commit"`
	Name     string    `json:"name" doc:"the description"`
	Ref      *string   `json:"ref" doc:"the tag or branch; null: with --always, there is none"`
	Distance int       `json:"distance" doc:"the number of commits after it"`
	Dirty    bool      `json:"dirty,omitempty" doc:"true if the worktree differs"`
}

func (o *describeOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	switch {
	case o.long && o.abbrev == 0:
		return cli.Usagef("--long and --abbrev=0 do not go together")
	case o.dirty != "" && len(args) > 0:
		return cli.Usagef("--dirty is about HEAD: a REV is not expected")
	case len(args) == 0:
		args = []string{"HEAD"}
	}
	if o.exact || o.candidates < 0 {
		o.candidates = 0
	}
	names, err := log.Names(ctx, r, log.NameOptions{Tags: o.tags, All: o.all, Match: func(name string) bool {
		return input.MatchesAny(o.match, name) && (len(o.exclude) == 0 || !input.MatchesAny(o.exclude, name))
	}})
	if err != nil {
		return err
	}

	d := describer{describeOptions: o, env: env, repo: r, names: names}
	if o.dirty != "" {
		s, err := stage.ReadStatus(ctx, r, stage.StatusOptions{NoUntracked: true})
		if err != nil {
			return err
		}
		if !s.Clean() {
			d.mark = o.dirty
		}
	}
	for _, arg := range args {
		if err := d.describe(ctx, arg); err != nil {
			return err
		}
	}
	return nil
}

// describer describes revisions.
type describer struct {
	*describeOptions
	env   *cli.Env
	repo  *kist.Repository
	names map[object.ID]string // full names by commit
	mark  string               // for local changes, if there are some
}

// describe prints the description of one revision.
func (o *describer) describe(ctx context.Context, rev string) error {
	r, names := o.repo, o.names
	id, err := r.Resolve(ctx, rev)
	if err != nil {
		return input.MeantPath(o.env, r, rev, err)
	}
	at, distance := id, 0
	if _, ok := names[id]; !ok {
		distance = -1
		if o.candidates > 0 {
			at, distance, err = history.Nearest(ctx, r.Objects(), id, o.candidates, func(id object.ID) bool { return names[id] != "" })
			if err != nil {
				return err
			}
		}
	}
	digits, err := refs.Abbreviate(ctx, r.Objects(), id, max(o.abbrev, 1))
	if err != nil {
		return err
	}

	out := describedJSON{Rev: rev, ID: id, Name: digits, Distance: distance, Dirty: o.mark != ""}
	switch {
	case distance >= 0:
		out.Ref = new(names[at])
		out.Name = cli.ShortRef(names[at])
		if o.all {
			out.Name = strings.TrimPrefix(names[at], "refs/")
		}
		if o.long || distance > 0 && o.abbrev != 0 {
			out.Name += fmt.Sprintf("-%d-g%s", distance, digits)
		}
	case o.candidates == 0:
		return cli.Failf(cli.ExitFailed, "no-name", "no tag is at commit %s", id.Short())
	case o.always:
		if o.abbrev == 0 {
			out.Name = id.String()
		}
	default:
		return cli.Hintf(cli.Failf(cli.ExitFailed, "no-name", "no tag leads to commit %s", id.Short()),
			"--tags uses tags without a message, too; --always prints the ID instead")
	}
	out.Name += o.mark
	if o.env.Global.JSON {
		o.env.JSON(out)
		return nil
	}
	o.env.Printf("%s\n", cli.Printable(out.Name))
	return nil
}
