package look

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/versions"
)

type historyOptions struct{ deleted bool }

func NewHistory(env *cli.Env) *cobra.Command {
	var o historyOptions
	cmd := &cobra.Command{
		Use:   "history [OPTIONS] PATH|FILEID",
		Short: "show the life of a file",
		Long: `Lists the versions of a file, newest first: number, time, commit, size, and what
the commit did. A file keeps its life when it is renamed or moved, and when it
is deleted and created again at the same path. A renamed file is found by equal
content first, then by similar content, as in 'kist diff'.

A FILEID names a file at any path. It depends on the commit and the path where
the file first appeared. Its first digits will do, at least 4.

Versions have numbers from 1. FILEID@3 names the third version, FILEID@-1 the
newest one; PATH@3 does, too. The commands cat, restore, show, ls, diff, archive
and refs-of take such names. If a file has the whole name PATH@3, they take that
file; the FILEID then names the version. A deletion has no number. In a merge,
the versions of the first parent come before those of the others, so numbers
stay when a branch goes on. Versions in expired commits do not count. So
'kist expire' changes numbers, and also the FILEID of a file that first appeared
in an expired commit.

The history is that of HEAD. If HEAD never had the file, it is that of the first
branch or tag with it. A merge is listed if the file differs from all its
parents. For a folder, the commits that changed anything below it are listed; a
renamed folder begins a new life, its files do not.

--deleted lists the files that HEAD's history has, but not HEAD: FILEID,
time of the deletion, number of versions, and path. With PATH, only the files
below it.

The first call indexes the history in .kist/versions, later calls only new
commits. The folder can be deleted at any time.`,
		Example: `  kist history notes.txt           all versions of a file
  kist cat notes.txt@2             the second version
  kist diff notes.txt@1 notes.txt@2
  kist restore notes.txt@-2        go back to the last but one
  kist history --deleted           files that HEAD no longer has
  kist restore 3fa9c1d2@-1         bring a deleted file back`,
		Args:              cli.Arguments(0, 1, "the file (PATH or FILEID)"),
		ValidArgsFunction: env.Complete(cli.TrackedPaths),
	}
	env.Prints(cmd, "for each version", jsonform.FileVersion{})
	env.Prints(cmd, "with --deleted, for each file", fileJSON{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	cmd.Flags().BoolVar(&o.deleted, "deleted", false, "list the files that HEAD no longer has")
	return cmd
}

// shownFile is the number of digits of a file's ID that are printed.
const shownFile = 12

func (o *historyOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if len(args) == 0 && !o.deleted {
		return cli.Usagef("the file (PATH or FILEID) is missing")
	}
	x, err := input.OpenVersions(ctx, env, r)
	if err != nil {
		return err
	}
	if o.deleted {
		return o.listDeleted(ctx, env, r, x, args)
	}
	f, err := input.FileOf(ctx, env, r, x, args[0])
	if err != nil {
		return err
	}
	if !env.Global.JSON {
		env.Printf("file %s  %s\n", env.Paint(cli.Yellow, f.ID.String()[:shownFile]), env.Shown(r, f.Path))
		env.Printf("created %s, updated %s, %s", seconds(env, f.Created()), seconds(env, f.Updated()), readable.Plural(uint64(f.Last()), "version", "versions"))
		if f.Tip.Name != "HEAD" {
			env.Printf(", in %s", cli.Printable(cli.ShortRef(f.Tip.Name)))
		}
		env.Printf("\n")
	}
	for i := range f.Versions {
		printVersion(ctx, env, r, f, &f.Versions[len(f.Versions)-1-i])
	}
	return nil
}

// listDeleted lists the files below a path that HEAD no longer has.
func (o *historyOptions) listDeleted(ctx context.Context, env *cli.Env, r *kist.Repository, x *versions.Index, args []string) error {
	paths, err := cli.RepoPaths(env, r, args)
	if err != nil {
		return err
	}
	head, err := r.Refs().Head()
	if err != nil || head.ID.IsZero() {
		return err
	}
	deleted, err := x.Deleted(ctx, versions.Tip{Name: "HEAD", Commit: head.ID})
	if err != nil {
		return err
	}
	for _, f := range deleted {
		if len(paths) > 0 && !tree.Below(f.Path, paths[0]) {
			continue
		}
		if env.Global.JSON {
			env.JSON(fileJSON{f.ID, jsonform.NewPath(f.Path), f.Last(), jsonform.Seconds(f.Created()), jsonform.Seconds(f.Updated())})
			continue
		}
		env.Printf("%s  %s  %12s  %s\n", env.Paint(cli.Yellow, f.ID.String()[:shownFile]), seconds(env, f.Updated()),
			readable.Plural(uint64(f.Last()), "version", "versions"), env.Shown(r, f.Path))
	}
	return nil
}

// fileJSON is a deleted file as history prints it with --json.
type fileJSON struct {
	File            object.ID `json:"file" doc:"the ID of the file for all time"`
	jsonform.AtPath `doc:"its last path"`
	Versions        int       `json:"versions" doc:"the number of its versions"`
	Created         time.Time `json:"created" doc:"when its first version was made"`
	Updated         time.Time `json:"updated" doc:"when it was deleted"`
}

// printVersion prints a line for a version of a file.
func printVersion(ctx context.Context, e *cli.Env, r *kist.Repository, f *versions.Life, v *versions.Version) {
	if e.Global.JSON {
		e.JSON(jsonform.NewFileVersion(f.ID, v))
		return
	}
	number, size, what := "-", "", jsonform.ChangeWord(v)
	if v.Number > 0 {
		number = fmt.Sprint(v.Number)
	}
	if v.Type != 0 && v.Type != object.TypeDir {
		size = readable.FormatSize(v.Size)
	}
	switch {
	case v.Moved:
		what = "moved away from " + cli.QuotePath(v.Path)
	case v.From != "":
		what = "renamed from " + cli.QuotePath(v.From)
	case v.Path != f.Path:
		what += " as " + cli.QuotePath(v.Path)
	}
	id, subject, _ := strings.Cut(input.Describe(ctx, r, v.Commit), " ")
	e.Printf("%5s  %s  %s  %9s  %s: %s\n", number, seconds(e, v.Time), e.Paint(cli.Yellow, id), size, what, subject)
}

// seconds returns the time so many seconds after 1970 as it is printed.
func seconds(e *cli.Env, s int64) string { return show.Mtime(e, time.Unix(s, 0), true) }
