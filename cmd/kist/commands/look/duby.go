package look

import (
	"context"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/tree"
)

// groupJSON is a line of 'du --by' with --json.
type groupJSON struct {
	By    string  `json:"by" doc:"the argument of --by"`
	Value *string `json:"value" doc:"its value; null: files without one"`
	Raw   []byte  `json:"value_raw,omitempty"`
	Files uint64  `json:"files" doc:"the number of files with it"`
	Bytes uint64  `json:"bytes" doc:"their size"`
}

// runBy counts files by the value that --by names.
func (o *duOptions) runBy(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	var groups stats.Groups
	key, isAttr := strings.CutPrefix(o.by, "attr.")
	var err error
	switch {
	case o.depth >= 0 && o.by != "dir":
		return cli.Usagef("--depth goes with --by dir only")
	case o.by == "branch" && len(args) > 0:
		return cli.Usagef("--by branch takes no arguments")
	case o.by == "branch":
		groups, err = stats.Branches(ctx, r)
	case o.by == "dir":
		depth := o.depth
		if depth < 0 {
			depth = 1
		}
		groups, err = groupsOf(ctx, env, r, args, stats.ByDir(depth))
	case o.by == "content-type":
		groups, err = groupsOf(ctx, env, r, args, stats.ByType)
	case isAttr:
		if err = tree.CheckAttr(key, ""); err == nil {
			groups, err = groupsOf(ctx, env, r, args, stats.ByAttr(key))
		}
	default:
		return cli.Hintf(cli.Usagef("--by %s is unknown", cli.QuoteArg(o.by)), "write attr.KEY, content-type, branch or dir")
	}
	if err != nil {
		return err
	}

	for _, g := range groups.Sorted() {
		v := groupJSON{By: o.by, Value: &g.Value, Raw: jsonform.Raw(g.Value), Files: g.Files, Bytes: g.Bytes}
		shown := cli.QuotePath(g.Value)
		switch {
		case g.Unset:
			v.Value, shown = nil, "-"
		case o.by == "dir":
			shown = cli.QuotePath(g.Value + "/")
			if g.Value == "" {
				shown = "."
			}
		}
		if env.Global.JSON {
			env.JSON(v)
		} else {
			o.printCounts(env, g.Bytes, g.Files, shown)
		}
	}
	return nil
}

// groupsOf groups the files that args select.
func groupsOf(ctx context.Context, env *cli.Env, r *kist.Repository, args []string, by stats.Grouper) (stats.Groups, error) {
	groups := stats.Groups{}
	all, _, err := input.LocateAll(ctx, env, r, args)
	if err != nil {
		return nil, err
	}
	for _, at := range all {
		env.Repo.Lost.BeginAt(at.Path)
		if err := groups.AddFiles(ctx, at.Objects, at.Tree, at.Path, by); err != nil {
			return nil, err
		}
	}
	return groups, nil
}
