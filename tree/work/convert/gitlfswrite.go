package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// gitAttributes is the name of the files in which git looks for the filter of a path.
const gitAttributes = ".gitattributes"

// maxAttributes is the size of the largest file .gitattributes that git reads, in bytes.
const maxAttributes = 100 << 20

// The lines of an export in a file .gitattributes are between these two.
const (
	lfsBegin = "# kist export git --lfs: the large files of this folder; kist import git removes these lines\n"
	lfsEnd   = "# end of kist's lines\n"
)

// isLarge reports whether an export writes a pointer for an entry. The files that git itself reads
// stay as they are, and so do pointers.
func (g *gitWriter) isLarge(ctx context.Context, path string, e *object.Entry) (bool, error) {
	if g.LFSSize == 0 || e == nil || e.Type != object.TypeFile || e.Size < g.LFSSize || dotGit().MatchString(path) {
		return false, nil
	}
	if _, name := tree.Split(path); strings.HasPrefix(strings.ToLower(name), ".git") {
		return false, nil
	}
	if e.Size > maxPointer {
		return true, nil
	}
	content, err := io.ReadAll(object.NewContentReader(ctx, g.objects, *e))
	return err == nil && parsePointer(content) == nil, err
}

// storeLFSContent stores the content of a large file, and returns the pointer to it.
func (g *gitWriter) storeLFSContent(ctx context.Context, e *object.Entry) (string, error) {
	sum, known := g.sums[e.Content]
	if !known || e.Content.IsZero() {
		var err error
		if sum, err = g.LFSStore(object.NewContentReader(ctx, g.objects, *e)); err != nil {
			return "", err
		}
		if g.done.Bytes += int64(e.Size); !e.Content.IsZero() {
			g.sums[e.Content] = sum
		}
		g.large[sum] = true
	}
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", sum, e.Size), nil
}

// noteAttrsFolder notes that the folder of a path gets other attributes, if a change of the path asks for it. It
// reports whether the path is that of the attributes: [gitWriter.allAttributes] writes them.
func (g *gitWriter) noteAttrsFolder(ctx context.Context, c tree.Change) (isAttributes bool, err error) {
	dir, name := tree.Split(c.Path)
	switch {
	case g.LFSSize == 0:
		return false, nil
	case name == gitAttributes:
		g.touched[dir] = true
		return true, nil
	}
	for _, e := range []*object.Entry{c.Old, c.New} {
		if large, err := g.isLarge(ctx, c.Path, e); err != nil {
			return false, err
		} else if large {
			g.touched[dir] = true
		}
	}
	return false, nil
}

// allAttributes returns the lines of a stream for the attributes of the folders that were touched.
//
// Each large file is named in the folder where it is: there, no other file .gitattributes goes before
// the line. Git also ignores lines above 2 KiB, which long paths would have.
func (g *gitWriter) allAttributes(ctx context.Context, root object.ID) (lines []string, err error) {
	for _, dir := range slices.Sorted(maps.Keys(g.touched)) {
		line, err := g.attributesOf(ctx, root, dir)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	clear(g.touched)
	return lines, nil
}

// attributesOf returns the line for one folder.
func (g *gitWriter) attributesOf(ctx context.Context, root object.ID, dir string) (string, error) {
	path := tree.Join(dir, gitAttributes)
	none := "D " + quoteForGit(path) + "\n"
	folder, err := tree.Find(ctx, g.objects, root, dir)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || err == nil && folder.Type != object.TypeDir {
		return none, nil
	}
	if err != nil {
		return "", err
	}

	var own *object.Entry
	var block strings.Builder
	for e, err := range object.Entries(ctx, g.objects, folder.Content.ID) {
		if err != nil {
			return "", err
		}
		if e.Name == gitAttributes {
			own = &e
		}
		large, err := g.isLarge(ctx, tree.Join(dir, e.Name), &e)
		if err != nil {
			return "", err
		}
		if large {
			block.WriteString(attributePattern(e.Name) + " filter=lfs diff=lfs merge=lfs -text\n")
		}
	}

	switch {
	case block.Len() == 0 && own == nil:
		return none, nil
	case block.Len() == 0:
		return g.changeLine(ctx, tree.Change{Path: path, New: own})
	case own == nil:
		return g.inlineLine("100644", path, lfsBegin+block.String()+lfsEnd), nil
	case own.Type == object.TypeDir:
		return "", fmt.Errorf("%q: git-lfs needs a file here, not a folder", path)
	case own.Type != object.TypeFile || own.Size > maxAttributes:
		g.result.Skipped = append(g.result.Skipped, object.Skipped{Path: path, Reason: "git-lfs needs a file of less than 100 MiB here"})
		return g.inlineLine("100644", path, lfsBegin+block.String()+lfsEnd), nil
	}
	text, err := io.ReadAll(object.NewContentReader(ctx, g.objects, *own))
	return g.inlineLine(gitMode(own), path, string(text)+"\n"+lfsBegin+block.String()+lfsEnd), err
}

// withoutBlock returns the entry of a file .gitattributes without the lines of an export, or nil if
// the export made the file.
func (g *gitReader) withoutBlock(ctx context.Context, e object.Entry) (*object.Entry, error) {
	if e.Size > maxAttributes {
		return &e, nil
	}
	text, err := io.ReadAll(object.NewContentReader(ctx, g.objects, e))
	if err != nil {
		return nil, err
	}
	own, made := withoutLFS(text)
	if made {
		return nil, nil
	}
	if len(own) == len(text) {
		return &e, nil
	}
	stored, err := g.repo.Worktree().StoreStream(ctx, g.dst, bytes.NewReader(own), nil)
	e.Size, e.Inline, e.Content = stored.Entry.Size, stored.Entry.Inline, stored.Entry.Content
	return &e, err
}

// withoutLFS returns the content of a file .gitattributes without the lines of an export, and
// reports whether the export made the file.
func withoutLFS(text []byte) (own []byte, made bool) {
	begin := bytes.LastIndex(text, []byte(lfsBegin))
	if begin < 0 || begin > 0 && text[begin-1] != '\n' {
		return text, false
	}
	length := bytes.Index(text[begin:], []byte(lfsEnd))
	if length < 0 {
		return text, false
	}
	if rest := text[begin+length+len(lfsEnd):]; len(rest) > 0 { // lines that somebody added later
		return slices.Concat(text[:begin], rest), false
	}
	return text[:max(0, begin-1)], begin == 0
}

// attributePattern returns the pattern that matches only a name, in the folder of the file
// .gitattributes: see gitattributes(5).
func attributePattern(name string) string {
	pattern := "/" + strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
	if !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return pattern
	}

	var quoted strings.Builder
	quoted.WriteByte('"')
	for i := range len(pattern) {
		switch c := pattern[i]; {
		case c == '"' || c == '\\':
			quoted.WriteString(`\` + string(c))
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&quoted, `\%03o`, c)
		default:
			quoted.WriteByte(c)
		}
	}
	quoted.WriteByte('"')
	return quoted.String()
}
