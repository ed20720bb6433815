package convert

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
)

// GitExport is the result of [ExportGit].
type GitExport struct {
	Refs    []string // full names
	Commits int
	Large   int              // contents for git-lfs
	Skipped []object.Skipped // files that git cannot hold; the first commit that has each

	// Signatures is the number of signatures of commits and tags. They are left out, because they fit
	// only the form of kist.
	Signatures int
}

// ExportGit writes all branches and tags, with their history, as a stream for 'git
// fast-import'. Git records neither empty folders, nor permission bits other than the
// owner's x, nor times and metadata of files; these are left out.
//
// With [GitOptions.LFSSize], the stream has pointers of git-lfs for large files, and names them in
// files .gitattributes. [ImportGit] turns both back.
//
// ExportGit stops at content that has expired, was purged, or is damaged.
func ExportGit(ctx context.Context, r *kist.Repository, stream io.Writer, o GitOptions) (*GitExport, error) {
	g := &gitWriter{
		GitOptions: o, objects: r.Contents(), out: bufio.NewWriterSize(stream, 1<<20),
		blobs: map[object.Key]int{}, commits: map[object.ID]int{},
		sums: map[object.Key]string{}, large: map[string]bool{}, touched: map[string]bool{},
	}
	names, err := r.Refs().List(refs.Heads)
	if err != nil {
		return nil, err
	}
	tags, err := r.Refs().List(refs.Tags)
	if err != nil {
		return nil, err
	}
	names = append(names, tags...)
	if len(names) == 0 {
		return nil, ErrNothingToExport
	}
	g.onto = names[0].Name

	g.writeLine("feature done\n")
	var starts []object.ID
	for _, ref := range names {
		commit, err := refs.Peel(ctx, r.Objects(), ref.ID)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ref.Name, err)
		}
		starts = append(starts, commit)
	}
	var list []history.Commit
	for c, err := range history.Walk(ctx, r.Objects(), starts, history.Options{Topo: true}) {
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	for c, err := range g.bringNear(ctx, list) {
		if err == nil {
			err = g.writeCommit(ctx, c)
		}
		if err != nil {
			return nil, fmt.Errorf("commit %s: %w", c.ID, err)
		}
	}
	for i, ref := range names {
		if err := g.writeRef(ctx, r, ref, starts[i]); err != nil {
			return nil, err
		}
	}
	g.writeLine("done\n")
	g.result.Large = len(g.large)
	return &g.result, g.out.Flush()
}

// ErrNothingToExport means that a repository has neither a branch nor a tag.
var ErrNothingToExport = errors.New("no branch and no tag has a commit")

// dotGit matches paths with a component that git refuses.
var dotGit = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|/)\.git(/|$)`)
})

// gitWriter writes a stream.
type gitWriter struct {
	GitOptions
	objects object.Reader
	out     *bufio.Writer // keeps its first error until Flush
	onto    string        // the ref that commits are written to; it gets its value at the end
	mark    int           // the last one
	blobs   map[object.Key]int
	commits map[object.ID]int
	sums    map[object.Key]string // SHA-256 of the contents for git-lfs
	large   map[string]bool       // the sums
	touched map[string]bool       // the folders whose file .gitattributes changes in this commit
	done    kist.Amount
	result  GitExport
}

func (g *gitWriter) writeLine(format string, args ...any) { fmt.Fprintf(g.out, format, args...) }

// writeText writes a text as data.
func (g *gitWriter) writeText(text string) { g.writeLine("data %d\n%s\n", len(text), text) }

// writeRef writes a branch or a tag.
func (g *gitWriter) writeRef(ctx context.Context, r *kist.Repository, ref refs.Ref, commit object.ID) error {
	g.result.Refs = append(g.result.Refs, ref.Name)
	if ref.ID == commit {
		g.writeLine("reset %s\nfrom :%d\n\n", ref.Name, g.commits[commit])
		return nil
	}
	t, err := object.ReadTag(ctx, r.Objects(), ref.ID)
	if err != nil {
		return err
	}
	if len(t.Signature) > 0 {
		g.result.Signatures++
	}
	g.writeLine("tag %s\nfrom :%d\n", strings.TrimPrefix(ref.Name, refs.Tags), g.commits[commit])
	g.writeLine("tagger %s\n", stampForGit(t.Tagger))
	g.writeText(t.Message)
	return nil
}

// bringNear yields commits, the last one first. Before a commit, it brings the trees and the content near that writeCommit reads, together with those of
// the next ones.
func (g *gitWriter) bringNear(ctx context.Context, list []history.Commit) iter.Seq2[history.Commit, error] {
	known, again := map[object.Key]bool{}, object.HasFar(g.objects) // Ahead may iterate twice
	commits := func(yield func(history.Commit, error) bool) {
		clear(known)
		for n := len(list); n > 0; {
			window := list[max(0, n-commitWindow):n]
			n -= len(window)
			if err := g.bringTrees(ctx, window); err != nil {
				yield(history.Commit{}, err)
				return
			}
			for i, c := range slices.Backward(window) {
				if !again {
					window[i] = history.Commit{} // to be freed
				}
				if !yield(c, nil) {
					return
				}
			}
		}
	}
	return object.Ahead(ctx, g.objects, commits, func(c history.Commit) (files []object.Entry, err error) {
		base, err := g.baseOf(ctx, c)
		if err != nil {
			return nil, err
		}
		for change, err := range tree.Diff(ctx, g.objects, base, c.Tree, tree.DiffOptions{Recursive: true}) {
			if err != nil {
				return nil, err
			}
			if e := change.New; e != nil && e.Type == object.TypeFile && !known[e.Content] {
				known[e.Content] = !e.Content.IsZero()
				files = append(files, *e)
			}
		}
		return files, nil
	})
}

// bringTrees brings the trees near that writeCommit reads for some commits.
func (g *gitWriter) bringTrees(ctx context.Context, commits []history.Commit) error {
	if !object.HasFarNodes(g.objects) {
		return nil
	}
	var pairs [][2]object.ID
	for _, c := range slices.Backward(commits) {
		base, err := g.baseOf(ctx, c)
		if err != nil {
			return err
		}
		pairs = append(pairs, [2]object.ID{base, c.Tree})
	}
	return tree.BringDiffs(ctx, g.objects, pairs, nil)
}

// commitWindow is the number of commits whose trees are brought near together.
const commitWindow = 256

// baseOf returns the tree of the first parent of a commit.
func (g *gitWriter) baseOf(ctx context.Context, c history.Commit) (base object.ID, err error) {
	if len(c.Parents) == 0 {
		return base, nil
	}
	parent, err := object.ReadCommit(ctx, g.objects, c.Parents[0])
	if err != nil {
		return base, err
	}
	return parent.Tree, nil
}

// writeCommit writes a commit, and before it the contents that are new in it.
func (g *gitWriter) writeCommit(ctx context.Context, c history.Commit) error {
	base, err := g.baseOf(ctx, c)
	if err != nil {
		return err
	}

	var removed, changed []string
	for change, err := range tree.Diff(ctx, g.objects, base, c.Tree, tree.DiffOptions{Recursive: true}) {
		if err != nil {
			return err
		}
		var line string
		attributes, err := g.noteAttrsFolder(ctx, change)
		if !attributes && err == nil {
			line, err = g.changeLine(ctx, change)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", change.Path, err)
		}
		if strings.HasPrefix(line, "D ") {
			removed = append(removed, line)
		} else if line != "" {
			changed = append(changed, line)
		}
	}

	attributes, err := g.allAttributes(ctx, c.Tree)
	if err != nil {
		return err
	}

	g.mark++
	g.commits[c.ID] = g.mark
	if len(c.Parents) == 0 {
		g.writeLine("reset %s\n", g.onto)
	}
	g.writeLine("commit %s\nmark :%d\nauthor %s\ncommitter %s\n", g.onto, g.mark, stampForGit(c.Author), stampForGit(c.Committer))
	g.writeText(c.Message)
	for i, parent := range c.Parents {
		word := "merge"
		if i == 0 {
			word = "from"
		}
		g.writeLine("%s :%d\n", word, g.commits[parent])
	}
	for _, line := range slices.Concat(removed, changed, attributes) {
		g.writeLine("%s", line)
	}
	g.writeLine("\n")

	if len(c.Signature) > 0 {
		g.result.Signatures++
	}
	g.result.Commits++
	g.done.Files++
	if g.Progress != nil {
		g.Progress(g.done, kist.Amount{})
	}
	return nil
}

// changeLine returns the line for a change of a path, "" for none. It writes the blob.
func (g *gitWriter) changeLine(ctx context.Context, c tree.Change) (string, error) {
	e := c.New
	switch {
	case e == nil && c.Old.Type == object.TypeDir, e != nil && e.Type == object.TypeDir:
		return "", nil // git has no folders; the removed files in one have changes of their own
	case e == nil:
		return "D " + quoteForGit(c.Path) + "\n", nil
	case e.Type == object.TypeSymlink && !dotGit().MatchString(c.Path):
		return g.inlineLine("120000", c.Path, e.Target), nil
	case e.Type != object.TypeFile, dotGit().MatchString(c.Path):
		reason := "special file"
		if e.Type == object.TypeFile || e.Type == object.TypeSymlink {
			reason = "git refuses the name"
		}
		g.result.Skipped = append(g.result.Skipped, object.Skipped{Path: c.Path, Reason: reason})
		if c.Old != nil {
			return "D " + quoteForGit(c.Path) + "\n", nil
		}
		return "", nil
	}
	mode := gitMode(e)
	if large, err := g.isLarge(ctx, c.Path, e); large && err == nil {
		pointer, err := g.storeLFSContent(ctx, e)
		return g.inlineLine(mode, c.Path, pointer), err
	} else if err != nil {
		return "", err
	}
	if e.Content.IsZero() {
		return g.inlineLine(mode, c.Path, string(e.Inline)), nil
	}
	mark, ok := g.blobs[e.Content]
	if !ok {
		g.mark++
		mark = g.mark
		g.blobs[e.Content] = mark
		g.writeLine("blob\nmark :%d\ndata %d\n", mark, e.Size)
		n, err := io.Copy(g.out, object.NewContentReader(ctx, g.objects, *e))
		if err != nil {
			return "", err
		}
		g.writeLine("\n")
		g.done.Bytes += n
	}
	return fmt.Sprintf("M %s :%d %s\n", mode, mark, quoteForGit(c.Path)), nil
}

// gitMode returns the mode of a file.
func gitMode(e *object.Entry) string {
	if e.Mode&0o100 != 0 {
		return "100755"
	}
	return "100644"
}

func (g *gitWriter) inlineLine(mode, path, content string) string {
	return fmt.Sprintf("M %s inline %s\ndata %d\n%s\n", mode, quoteForGit(path), len(content), content)
}

// quoteForGit returns a path as git-fast-import(1) reads it.
func quoteForGit(path string) string {
	if !strings.ContainsAny(path, "\n\"") && !strings.HasPrefix(path, " ") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// stampForGit returns a stamp without the characters that git gives a meaning. Git
// has no times before 1970.
func stampForGit(s object.Stamp) string {
	clean := strings.NewReplacer("<", "", ">", "", "\n", " ")
	sign, zone := "+", s.Zone
	if zone < 0 {
		sign, zone = "-", -zone
	}
	name := cmp.Or(clean.Replace(s.Name), "unknown")
	return name + " <" + clean.Replace(s.Email) + "> " + strconv.FormatInt(max(0, s.Time.Sec), 10) + fmt.Sprintf(" %s%02d%02d", sign, zone/60, zone%60)
}
