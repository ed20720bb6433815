package look

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

type duOptions struct {
	summarize bool
	depth     int
	all       bool
	bytes     bool
	stored    bool
	where     bool
	by        string
}

func NewDu(env *cli.Env) *cobra.Command {
	var o duOptions
	cmd := &cobra.Command{
		Use:   "du [OPTIONS] [REV[:PATH]] [-- PATH...]",
		Short: "show the size of folders in a commit",
		Long: `Lists the folders in a commit, by default in HEAD, each with the size of the
files in it and their number. Every commit has these numbers, so no file is
read. With PATHs after REV, these files and folders are listed; the first line
is their total.

--stored adds two totals for the listed paths. The first is the bytes of
content, with repeated content counted once. The second is the bytes that it
takes in the repository: compressed, with the lists of files and chunks, and
with content that other commits share. Files of up to 32 bytes are kept in the
lists of files and have no content of their own.

--by attr.KEY lists the values of an attribute instead of folders, each with the
size and number of the files that have it themselves or inherit it; - stands for
the other files. --by content-type lists the media types: the attribute of this
name, or else what the first bytes of a file show. --by dir lists the folders at
the --depth, which is 1 if it is not given, and --by branch the branches with
their newest commits. The largest comes first.

--where shows how much content of the paths is here, and how much 'kist evict'
has given away. It asks each remote how much of that it keeps; "promises
nothing" means that the keep ref of this repository is not there. Sizes are
those of the content, with repeated content counted once.`,
		Example: `  kist du --depth 1            which folders of HEAD are large
  kist du -s v1                 the size of v1
  kist du -s --stored HEAD:film the size of film, and of its stored data
  kist du -s v1 -- '*.mov'      the size of all films in v1
  kist du --by attr.project     the size of each project
  kist du --where film          which part of film is only on a remote`,
		ValidArgsFunction: env.CompleteUntilDash(input.TreePaths),
	}
	env.Prints(cmd, "for each folder", duJSON{})
	env.Prints(cmd, "with --by, for each value", groupJSON{})
	env.Prints(cmd, "with --where", whereJSON{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	flags := cmd.Flags()
	flags.BoolVarP(&o.summarize, "summarize", "s", false, "only the total")
	flags.IntVarP(&o.depth, "depth", "d", -1, "folders down to `N` levels; 0 is -s")
	flags.Lookup("depth").DefValue = "" // the help shows no default: it is all
	flags.BoolVarP(&o.all, "all", "a", false, "files, too")
	flags.BoolVarP(&o.bytes, "bytes", "b", false, "exact sizes in bytes")
	flags.BoolVar(&o.stored, "stored", false, "show unique and stored sizes")
	flags.BoolVar(&o.where, "where", false, "show how much is here, and how much remotes keep")
	flags.StringVar(&o.by, "by", "", "show sizes by `VALUE`: attr.KEY, content-type, branch or dir")
	cli.Propose(env, cmd, "by", cli.OneOf("attr.tags", "branch", "content-type", "dir"))
	cmd.MarkFlagsMutuallyExclusive("summarize", "depth")
	for _, other := range []string{"summarize", "all", "stored"} {
		cmd.MarkFlagsMutuallyExclusive("by", other)
	}
	for _, other := range []string{"summarize", "depth", "all", "stored", "by"} {
		cmd.MarkFlagsMutuallyExclusive("where", other)
	}
	return cmd
}

// duJSON is a folder as du prints it with --json.
type duJSON struct {
	jsonform.AtPath
	Files uint64 `json:"files" doc:"the number of files in the folder"`
	Bytes uint64 `json:"bytes" doc:"their size"`
	Total bool   `json:"total,omitempty" doc:"true for the total of the PATHs"`
	*storedJSON
}

// addEntry counts a folder or file.
func (v *duJSON) addEntry(e object.Entry) {
	v.Bytes += e.Size
	if e.Type != object.TypeDir {
		e.Files = 1
	}
	v.Files += e.Files
}

// storedJSON has the size of content before and after compression.
type storedJSON struct {
	Unique uint64 `json:"bytes_unique" doc:"with --stored, the bytes that only these files need"`
	Stored uint64 `json:"bytes_stored" doc:"with --stored, the bytes of all objects that they need"`
}

func (o *duOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if o.where {
		return o.runWhere(ctx, env, r, args)
	}
	if o.by != "" {
		return o.runBy(ctx, env, r, args)
	}
	if o.summarize {
		o.depth = 0
	}
	all, byPaths, err := input.LocateAll(ctx, env, r, args)
	if err != nil {
		return err
	}

	var stored *storedJSON
	if o.stored {
		if stored, err = storedUnder(ctx, env, r, all); err != nil {
			return err
		}
	}
	if byPaths {
		total := duJSON{Total: true, storedJSON: stored}
		for _, at := range all {
			total.addEntry(at.Entry)
		}
		o.printEntry(env, total, "total")
		if o.depth == 0 {
			return nil
		}
		stored = nil
	}

	for _, at := range all {
		if err := o.listEntry(ctx, env, at, stored); err != nil {
			return err
		}
	}
	return nil
}

// listEntry prints a folder or file, and the folders in it.
func (o *duOptions) listEntry(ctx context.Context, env *cli.Env, at input.Located, stored *storedJSON) error {
	line := func(path string, e object.Entry, stored *storedJSON) {
		v := duJSON{AtPath: jsonform.NewPath(path), storedJSON: stored}
		v.addEntry(e)
		o.printEntry(env, v, cli.QuotePath(cmp.Or(slashed(path, e), ".")))
	}
	line(at.Path, at.Entry, stored)
	if at.Entry.Type != object.TypeDir || o.depth == 0 {
		return nil
	}
	env.Repo.Lost.BeginAt(at.Path)
	return tree.Walk(ctx, at.Objects, at.Entry.Content.ID, func(path string, e object.Entry) error {
		if e.Type != object.TypeDir && !o.all {
			return nil
		}
		line(tree.Join(at.Path, path), e, nil)
		if o.depth > 0 && strings.Count(path, "/")+1 >= o.depth && e.Type == object.TypeDir {
			return tree.SkipDir
		}
		return nil
	})
}

// printEntry prints a line, and below it the stored sizes if v has them.
func (o *duOptions) printEntry(env *cli.Env, v duJSON, shown string) {
	if env.Global.JSON {
		env.JSON(v)
		return
	}
	o.printCounts(env, v.Bytes, v.Files, shown)
	if v.storedJSON != nil {
		o.printSize(env, v.Unique, "of unique content")
		o.printSize(env, v.Stored, "stored")
	}
}

// printCounts prints a number of bytes and files, and their name.
func (o *duOptions) printCounts(env *cli.Env, bytes, files uint64, shown string) {
	o.printSize(env, bytes, fmt.Sprintf("%13s  %s", readable.Plural(files, "file", "files"), shown))
}

// printSize prints a line that begins with a number of bytes.
func (o *duOptions) printSize(env *cli.Env, bytes uint64, text string) {
	width := 9
	if o.bytes {
		width = 17
	}
	env.Printf("%*s  %s\n", width, cli.SizeOrBytes(bytes, o.bytes), text)
}

// storedUnder returns the size of the content of some entries and of all below them. Every
// object counts once.
func storedUnder(ctx context.Context, env *cli.Env, r *kist.Repository, all []input.Located) (*storedJSON, error) {
	p := env.Progress("counting")
	defer p.Stop()
	var keys []object.Key
	for _, at := range all {
		if !at.Entry.Content.IsZero() {
			keys = append(keys, at.Entry.Content)
		}
	}
	below, err := stats.Below(ctx, r.Objects(), keys, func(raw int64) { p.Add(1, uint64(raw)) })
	if err != nil {
		return nil, err
	}
	for _, key := range below.Lost {
		env.Repo.Lost.Add("", key)
	}
	return &storedJSON{Unique: uint64(below.Content), Stored: uint64(below.Stored)}, nil
}
