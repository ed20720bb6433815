package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

type duOptions struct {
	summarize bool
	depth     int
	all       bool
	bytes     bool
	stored    bool
}

func newDu(env *Env) *cobra.Command {
	var o duOptions
	cmd := &cobra.Command{
		Use:   "du [OPTIONS] [REV[:PATH]]",
		Short: "tell how large folders in a commit are",
		Long: `Lists the folders in a commit, by default in HEAD, each with the size of the
files in it and their number. These are kept in every commit, so that no file is
looked at.

--stored adds two lines on all that was asked for: how many bytes of content
there are if what occurs more than once counts once, and how many bytes all that
takes in the repository, compressed, with the lists of files and chunks. What
other commits share is counted, too. Files of up to 32 bytes are kept in the
lists of files, and so are no content of their own.

With --json, one folder a line: path, files, bytes; with --stored the first line
has bytes_unique and bytes_stored.`,
		Example: `  kist du --depth 1            which folders of HEAD are large
  kist du -s v1                 the size of v1
  kist du -s --stored HEAD:film what is film, and what does it take?`,
		Args:              arguments(0, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return runDu(cmd, env, o, args) },
		ValidArgsFunction: env.complete(treePaths),
	}
	inRepository(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&o.summarize, "summarize", "s", false, "only the total")
	flags.IntVarP(&o.depth, "depth", "d", -1, "folders down to `N` levels; 0 is -s")
	flags.Lookup("depth").DefValue = "" // to be told: all
	flags.BoolVarP(&o.all, "all", "a", false, "files, too")
	flags.BoolVarP(&o.bytes, "bytes", "b", false, "exact sizes in bytes")
	flags.BoolVar(&o.stored, "stored", false, "tell what is unique, and what is stored")
	must(cmd.RegisterFlagCompletionFunc("depth", cobra.NoFileCompletions))
	cmd.MarkFlagsMutuallyExclusive("summarize", "depth")
	return cmd
}

// duJSON is a folder as du prints it with --json.
type duJSON struct {
	Path    string `json:"path"`
	PathRaw []byte `json:"path_raw,omitempty"`
	Files   uint64 `json:"files"`
	Bytes   uint64 `json:"bytes"`
	*storedJSON
}

// storedJSON is what content takes.
type storedJSON struct {
	Unique uint64 `json:"bytes_unique"`
	Stored uint64 `json:"bytes_stored"`
}

func runDu(cmd *cobra.Command, env *Env, o duOptions, args []string) error {
	ctx := cmd.Context()
	if o.summarize {
		o.depth = 0
	}
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	what := "HEAD"
	if len(args) > 0 {
		what = args[0]
	}
	at, err := env.locate(ctx, r, what)
	if err != nil {
		return err
	}
	var stored *storedJSON
	if o.stored {
		if stored, err = storedUnder(ctx, env, r, at.entry); err != nil {
			return err
		}
	}
	if err := o.print(env, at.path, at.entry, stored); err != nil {
		return err
	}
	if at.entry.Type != object.TypeDir || o.depth == 0 {
		return nil
	}
	return tree.Walk(ctx, at.objects, at.entry.Content.ID, func(path string, e object.Entry) error {
		if e.Type != object.TypeDir && !o.all {
			return nil
		}
		if err := o.print(env, tree.Join(at.path, path), e, nil); err != nil {
			return err
		}
		if o.depth > 0 && strings.Count(path, "/")+1 >= o.depth && e.Type == object.TypeDir {
			return tree.SkipDir
		}
		return nil
	})
}

// print prints a line for a folder or file.
func (o *duOptions) print(env *Env, path string, e object.Entry, stored *storedJSON) error {
	files := e.Files
	if e.Type != object.TypeDir {
		files = 1
	}
	if env.global.json {
		return env.json(duJSON{path, rawPath(path), files, e.Size, stored})
	}
	size := func(n uint64) string {
		if o.bytes {
			return formatCount(n)
		}
		return formatSize(n)
	}
	shown := slashed(path, e)
	if shown == "" {
		shown = "."
	}
	env.printf("%*s  %13s  %s\n", o.width(), size(e.Size), plural(files, "file", "files"), quotePath(shown))
	if stored != nil {
		env.printf("%*s  of unique content\n", o.width(), size(stored.Unique))
		env.printf("%*s  stored\n", o.width(), size(stored.Stored))
	}
	return nil
}

func (o *duOptions) width() int {
	if o.bytes {
		return 17
	}
	return 9
}

// storedUnder returns what the content of an entry, and of all below it, takes,
// counting every object once.
func storedUnder(ctx context.Context, env *Env, r *kist.Repository, e object.Entry) (*storedJSON, error) {
	p := env.progress("counting")
	defer p.Stop()
	total := &storedJSON{}
	objects := r.Objects()
	seen := map[object.Key]bool{}
	var todo []object.Key
	add := func(key object.Key) {
		if !key.IsZero() && !seen[key] {
			seen[key] = true
			todo = append(todo, key)
		}
	}
	add(e.Content)
	for len(todo) > 0 {
		key := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		raw, stored, err := objects.StoredSize(ctx, key)
		if err != nil {
			return nil, err
		}
		total.Stored += uint64(stored)
		p.Add(1, uint64(raw))
		if !key.Kind.IsNode() {
			total.Unique += uint64(raw)
			continue
		}
		data, err := objects.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		links, err := object.Links(key.Kind, data)
		if err != nil {
			return nil, err
		}
		for _, link := range links {
			add(link)
		}
	}
	return total, nil
}
