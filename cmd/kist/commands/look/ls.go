package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

type lsOptions struct {
	long      bool
	recursive bool
	trees     bool
	nul       bool
}

func NewLs(env *cli.Env) *cobra.Command {
	var o lsOptions
	cmd := &cobra.Command{
		Use:   "ls [OPTIONS] [REV[:PATH]|FILE@N] [-- PATH...]",
		Short: "list the files in a commit",
		Long: `Lists the names in a folder of a commit, by default the root of HEAD, in the
order of their bytes. Names of folders end with a slash. ':PATH' lists the
index. With PATHs after REV, lists the files that these select in any folder,
with paths relative to the current folder.

A file with purged content is followed by '(purged)', except with -z.

-l adds type and permissions, owner and group if they are recorded, the size in
bytes, and the time of the last change; the size of a folder is the sum of its
files. A + stands for extended attributes, and a device has its numbers as size.
Attributes follow the name, as in {project=film, tags=raw}.
-r lists the content of folders instead of the folders, with paths that
start from the listed folder. Empty folders are still listed.`,
		Example: `  kist ls                   what HEAD has
  kist ls -l v1:src         the folder src of v1, in detail
  kist ls v1 -- '*.mov'     the films in v1
  kist ls -r -z | xargs -0 -n1 echo`,
		ValidArgsFunction: env.CompleteUntilDash(input.TreePaths),
	}
	env.Prints(cmd, "for each path", jsonform.Entry{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	flags := cmd.Flags()
	flags.BoolVarP(&o.long, "long", "l", false, "show type and permissions, size and time")
	flags.BoolVarP(&o.recursive, "recursive", "r", false, "list the files in folders, not the folders")
	flags.BoolVarP(&o.recursive, "recurse", "R", false, "the same as -r")
	flags.Lookup("recurse").Hidden = true
	flags.BoolVarP(&o.trees, "trees", "t", false, "with -r, list folders too")
	flags.BoolVarP(&o.nul, "null", "z", false, "end names with NUL, and do not quote them")
	return cmd
}

func (o *lsOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	all, byPaths, err := input.LocateAll(ctx, env, r, args)
	if err != nil {
		return err
	}
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return err
	}

	print := func(at input.Located, path string, e object.Entry) error {
		var purged error
		if records.AnyPurged() {
			if purged, err = r.Purged(ctx, &e); err != nil {
				return err
			}
		}
		if env.Global.JSON {
			v := jsonform.NewEntry(tree.Join(at.Path, path), e)
			v.Purged = purged != nil
			env.JSON(v)
			return nil
		}
		if byPaths {
			path = env.Relative(r, tree.Join(at.Path, path))
		}
		o.printEntry(env, path, e, purged != nil)
		return nil
	}

	for _, at := range all {
		env.Repo.Lost.BeginAt(at.Path)
		if err := o.listEntries(ctx, at, o.recursive || byPaths, print); err != nil {
			return err
		}
	}
	return nil
}

// listEntries calls print with a file, or with the entries of a folder.
func (o *lsOptions) listEntries(ctx context.Context, at input.Located, recursive bool, print func(at input.Located, path string, e object.Entry) error) error {
	if at.Entry.Type != object.TypeDir {
		dir, name := tree.Split(at.Path)
		at.Path = dir
		return print(at, name, at.Entry)
	}
	empty, _ := object.EmptyTree()
	return tree.Walk(ctx, at.Objects, at.Entry.Content.ID, func(path string, e object.Entry) error {
		switch {
		case e.Type != object.TypeDir || e.Content.ID == empty:
		case !recursive:
			return cmp.Or(print(at, path, e), tree.SkipDir)
		case !o.trees:
			return nil
		}
		return print(at, path, e)
	})
}

// printEntry prints a line for an entry.
func (o *lsOptions) printEntry(env *cli.Env, path string, e object.Entry, purged bool) {
	if o.long {
		owner, size := "", fmt.Sprint(e.Size)
		if m := e.Meta; m != nil {
			more := " "
			if len(m.Xattrs) > 0 {
				more = "+"
			}
			owner = cli.Printable(fmt.Sprintf("%s %-15s", more, show.OwnerText(m)))
			if m.Device != 0 {
				size = fmt.Sprintf("%d, %d", unix.Major(m.Device), unix.Minor(m.Device))
			}
		}
		at, known := e.Modified()
		env.Printf("%s%s %13s %s ", show.ModeString(e), owner, size, show.Mtime(env, at, known))
	}

	shown, end := slashed(path, e), "\n"
	if o.nul {
		end = "\x00"
	} else {
		shown = cli.QuotePath(shown)
	}

	switch e.Type {
	case object.TypeDir:
		shown = env.Paint(cli.Blue, shown)
	case object.TypeSymlink:
		shown = env.Paint(cli.Cyan, shown)
		if o.long && !o.nul && e.Target != "" {
			shown += " -> " + cli.QuotePath(e.Target)
		}
	case object.TypeFile:
		if e.Mode&0o111 != 0 {
			shown = env.Paint(cli.Green, shown)
		}
	}
	if o.long && !o.nul && len(e.Attrs) > 0 {
		shown += " {" + strings.Join(show.AttrTexts(e.Attrs), ", ") + "}"
	}
	if purged && !o.nul {
		shown += env.Paint(cli.Red, " (purged)")
	}
	env.Printf("%s%s", shown, end)
}

// slashed is [cli.Folded], but "" stays "".
func slashed(path string, e object.Entry) string {
	if e.Type == object.TypeDir && path != "" {
		return path + "/"
	}
	return path
}

type catOptions struct{ byteRange string }

func NewCat(env *cli.Env) *cobra.Command {
	var o catOptions
	cmd := &cobra.Command{
		Use:   "cat [OPTIONS] REV:PATH|FILE@N...",
		Short: "print the content of files in commits",
		Long: `Prints the content of files in commits, byte for byte, one after the other. For
a symlink, prints its target. ':PATH' names the staged file. A PATH starts from
the root of the worktree, or from the current folder if it begins with './' or
'../'. FILE@N is version N of a file, by its path or its FILEID: see 'kist help
history'.

Content is checked as it is read, and printed at once: a file of any size takes
no more memory than a small one. With --range only the chunks that hold the
range are read. With --json the content is the same; only errors are JSON.`,
		Example: `  kist cat HEAD:notes.txt
  kist cat v1:film/scene1.mov > old.mov
  kist cat notes.txt@-2               the version before the newest one
  kist cat --range 1GiB:4096 HEAD:disk.img | xxd`,
		Args:              cli.Arguments(1, -1, "the file (REV:PATH)"),
		ValidArgsFunction: env.Complete(input.TreePaths),
	}
	env.InRepository(cmd, o.run)
	cmd.Flags().StringVar(&o.byteRange, "range", "", "only the `OFF:LEN` bytes from offset OFF on; OFF: goes to the end")
	return cmd
}

func (o *catOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	offset, length, err := parseRange(o.byteRange)
	if err != nil {
		return err
	}
	for _, arg := range args {
		if !input.NamesEntry(ctx, env, r, arg) {
			err := cli.Hintf(cli.Usagef("%s is not REV:PATH", cli.QuoteArg(arg)), "for a file in HEAD write 'HEAD:%s'", cli.Printable(arg))
			return err
		}
		at, err := input.Locate(ctx, env, r, arg)
		if err != nil {
			return err
		}
		if err := copyContent(ctx, env, at, offset, length); err != nil {
			return err
		}
	}
	return nil
}

// parseRange parses OFF:LEN. Without LEN, the length is -1, which means all.
func parseRange(text string) (offset, length int64, err error) {
	if text == "" {
		return 0, -1, nil
	}
	first, second, ok := strings.Cut(text, ":")
	if !ok {
		return 0, 0, cli.Usagef("--range %s is not OFF:LEN", cli.QuoteArg(text))
	}
	length = -1
	if offset, err = parseInt63(first); err == nil && second != "" {
		length, err = parseInt63(second)
	}
	if err != nil {
		return 0, 0, cli.Usagef("--range: %w", err)
	}
	return offset, length, nil
}

// parseInt63 parses a size that fits into an int64.
func parseInt63(text string) (int64, error) {
	n, err := kist.ParseSize(text)
	if n > math.MaxInt64 {
		return 0, fmt.Errorf("%s is too large", text)
	}
	return int64(n), err
}

// copyContent prints length bytes of a file from an offset on, or all if length is negative.
// For a symlink, it prints the target.
func copyContent(ctx context.Context, env *cli.Env, at input.Located, offset, length int64) error {
	var content io.ReadSeeker = object.NewContentReader(ctx, at.Objects, at.Entry)
	switch at.Entry.Type {
	case object.TypeFile:
	case object.TypeSymlink:
		content = strings.NewReader(at.Entry.Target)
	case object.TypeDir:
		return cli.Hintf(cli.Failf(cli.ExitFailed, "is-directory", "%s is a folder", cli.QuoteArg(at.Rev+":"+at.Path)), "'kist ls %s' lists it", cli.Printable(at.Rev+":"+at.Path))
	default:
		return cli.Failf(cli.ExitFailed, "", "%s is a %s", cli.QuoteArg(at.Rev+":"+at.Path), show.EntryTypes[at.Entry.Type].Name)
	}

	if offset > 0 {
		if _, err := content.Seek(offset, io.SeekStart); err != nil {
			return err
		}
	}
	var from io.Reader = content
	if length >= 0 {
		from = io.LimitReader(content, length)
	}

	_, err := io.CopyBuffer(struct{ io.Writer }{env.Stdout}, struct{ io.Reader }{from}, make([]byte, 256<<10))
	if purged, ok := errors.AsType[*object.AbsentError](err); ok && errors.Is(purged, object.ErrPurged) {
		err = fmt.Errorf("%s: %w", cli.QuoteArg(at.Rev+":"+at.Path), purged)
	}
	return err
}
