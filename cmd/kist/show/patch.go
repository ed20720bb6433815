package show

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// noFile is the name of a missing file in the unified format.
const noFile = "/dev/null"

// showPatch prints a change as git does: a header, and the lines that differ. For a binary
// file, it prints the ranges of bytes that differ.
func (c *Comparison) showPatch(ctx context.Context, change compare.Change) error {
	if change.Unmerged {
		c.Env.Printf("%s\n", c.Env.Paint(cli.Bold, "* Unmerged path "+cli.QuotePath(change.Path)))
		if compare.HaveSameData(change.Old, change.New) && change.Old.Mode == change.New.Mode || change.Old == nil && change.New == nil {
			return nil
		}
	}
	if change.Old != nil && change.New != nil && change.Old.Type != change.New.Type {
		before, after := change, change
		before.New, after.Old, after.From = nil, nil, ""
		if err := c.showFilePatch(ctx, before); err != nil {
			return err
		}
		return c.showFilePatch(ctx, after)
	}
	return c.showFilePatch(ctx, change)
}

func (c *Comparison) showFilePatch(ctx context.Context, change compare.Change) error {
	if change.IsFolder() {
		c.Env.Printf("%s\n", c.Env.Paint(cli.Bold, c.folderLine(change)))
		return nil
	}
	t, isText, err := c.Texts(ctx, change)
	if err != nil {
		return fmt.Errorf("compare %s: %w", cli.QuoteArg(change.Path), err)
	}

	for _, line := range c.Header(change) {
		c.Env.Printf("%s\n", c.Env.Paint(cli.Bold, line))
	}
	oldName, newName := c.PatchNames(change)
	if isText {
		c.printPatch(tree.Unified(LineName(oldName), LineName(newName), t.Old, t.New, c.Form.textOptions()))
		return nil
	}
	c.Env.Printf("Binary files %s and %s differ\n", cli.QuotePath(oldName), cli.QuotePath(newName))
	for _, side := range []struct {
		name  string
		entry *object.Entry
	}{{oldName, change.Old}, {newName, change.New}} {
		purged, err := c.Repo.Purged(ctx, side.entry)
		if err != nil {
			return err
		}
		if purged != nil {
			c.Env.Printf("%s: %s\n", cli.QuotePath(side.name), cli.Printable(purged.Error()))
		}
		if c.IsLost(side.entry) {
			c.Env.Printf("%s: content is lost\n", cli.QuotePath(side.name))
		}
	}
	return c.printRanges(ctx, change)
}

// folderLine describes the change of a folder. The format of git and patch has no folders,
// and they ignore this line.
func (c *Comparison) folderLine(change compare.Change) string {
	name, old, new := cli.QuotePath(shownPath(change)), change.Old, change.New
	switch {
	case old == nil:
		line := fmt.Sprintf("New folder %s, mode %s", name, jsonform.ModeText(new.Mode))
		return strings.Join(append([]string{line}, attrLines(nil, new)...), ", ")
	case new == nil:
		return fmt.Sprintf("Deleted folder %s, mode %s", name, jsonform.ModeText(old.Mode))
	}
	lines := []string{"Folder " + name}
	if old.Mode != new.Mode {
		lines = append(lines, "old mode "+jsonform.ModeText(old.Mode), "new mode "+jsonform.ModeText(new.Mode))
	}
	return strings.Join(append(lines, c.MetadataLines(old, new)...), ", ")
}

// entryTime returns the modification time of an entry.
func (c *Comparison) entryTime(e *object.Entry) string {
	at, _ := e.Modified()
	return object.Writable(at.In(c.Env.Now().Location())).Format("2006-01-02 15:04:05.999999999 -0700")
}

// MetadataLines describes the changes of attributes and recorded metadata.
func (c *Comparison) MetadataLines(old, new *object.Entry) (lines []string) {
	lines = attrLines(old, new)
	if old == nil || new == nil || old.Meta == nil || new.Meta == nil {
		return lines
	}
	a, b := old.Meta, new.Meta
	if from, to := OwnerText(a), OwnerText(b); from != to {
		lines = append(lines, cli.Printable(fmt.Sprintf("owner %s → %s", from, to)))
	}
	if a.UID != b.UID || a.GID != b.GID {
		lines = append(lines, fmt.Sprintf("owner number %d:%d → %d:%d", a.UID, a.GID, b.UID, b.GID))
	}
	if a.Device != b.Device {
		lines = append(lines, fmt.Sprintf("device %#x → %#x", a.Device, b.Device))
	}
	names := maps.Clone(a.Xattrs)
	maps.Copy(names, b.Xattrs)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := a.Xattrs[name]
		now, has := b.Xattrs[name]
		how := "changed"
		switch {
		case !had:
			how = "new"
		case !has:
			how = "removed"
		case bytes.Equal(was, now):
			continue
		}
		lines = append(lines, how+" extended attribute "+cli.QuotePath(name))
	}
	if old.Type == object.TypeDir {
		return lines // its time changes with each file in it
	}
	switch {
	case a.HardLink == b.HardLink:
	case a.HardLink == 0:
		lines = append(lines, "now has hard links")
	case b.HardLink == 0:
		lines = append(lines, "has no hard links any more")
	default:
		lines = append(lines, "a hard link of other files")
	}
	if old.MTime != new.MTime {
		lines = append(lines, fmt.Sprintf("time %s → %s", c.entryTime(old), c.entryTime(new)))
	}
	return lines
}

// sidePrefixes returns git's prefixes of the names of the two sides.
func (c *Comparison) sidePrefixes() (old, new string) {
	if c.Form.Reverse {
		return "b/", "a/"
	}
	return "a/", "b/"
}

// PatchNames returns the names of the two sides of a change.
func (c *Comparison) PatchNames(change compare.Change) (old, new string) {
	old, new = c.sidePrefixes()
	old, new = old+change.Source(), new+change.Path
	if change.Old == nil {
		old = noFile
	}
	if change.New == nil {
		new = noFile
	}
	return old, new
}

// LineName returns a name for a line that begins with --- or +++. As in git,
// a tab ends a name with spaces.
func LineName(name string) string {
	shown := cli.QuotePath(name)
	if shown == name && strings.Contains(name, " ") {
		shown += "\t"
	}
	return shown
}

// Header returns the lines above the changed lines of a file.
func (c *Comparison) Header(change compare.Change) []string {
	a, b := c.sidePrefixes()
	lines := []string{"diff --git " + cli.QuotePath(a+change.Source()) + " " + cli.QuotePath(b+change.Path)}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	old, new := change.Old, change.New
	switch {
	case old == nil:
		add("new file mode %06o", UnixMode(new))
	case new == nil:
		add("deleted file mode %06o", UnixMode(old))
	case old.Mode != new.Mode:
		add("old mode %06o", UnixMode(old))
		add("new mode %06o", UnixMode(new))
	}
	lines = append(lines, c.MetadataLines(old, new)...)
	if change.From != "" {
		add("similarity index %d%%", change.Similarity)
		add("rename from %s", cli.QuotePath(change.From))
		add("rename to %s", cli.QuotePath(change.Path))
	}
	if !compare.HaveSameData(old, new) {
		line := fmt.Sprintf("index %s..%s", tree.ContentID(old).Short(), tree.ContentID(new).Short())
		if old != nil && new != nil && old.Mode == new.Mode {
			line += fmt.Sprintf(" %06o", UnixMode(new))
		}
		lines = append(lines, line)
	}
	return lines
}

// UnixMode returns an entry's type and permission bits as Unix has them in one
// number. As in git, those of a symlink mean nothing.
func UnixMode(e *object.Entry) uint32 {
	bits := EntryTypes[e.Type].bits
	if e.Type == object.TypeSymlink {
		return bits
	}
	return bits | uint32(e.Mode)
}

// printPatch prints text in the unified format, or the words that differ.
func (c *Comparison) printPatch(text []byte) {
	if words := c.Form.Lines.Words; words != "" && words != "none" {
		_, _ = c.Env.Stdout.Write(tree.WordDiff(text, c.wordStyle()))
		return
	}
	c.PrintLines(text, 2)
}

// PrintLines prints lines in the unified format. The first ones have names.
func (c *Comparison) PrintLines(text []byte, names int) {
	if !c.Env.Colored(c.Env.Terminal.Stdout) {
		_, _ = c.Env.Stdout.Write(text)
		return
	}
	for line := range strings.Lines(string(text)) {
		switch {
		case names > 0:
			names--
			line = c.paintLine(cli.Bold, line)
		case line[0] == '@':
			line = c.paintHunk(line)
		case line[0] == '-':
			line = c.paintLine(cli.Red, line)
		case line[0] == '+':
			line = c.paintLine(cli.Green, line)
		}
		c.Env.Printf("%s", line)
	}
}

// paintLine paints a line without its newline.
func (c *Comparison) paintLine(s cli.Style, line string) string {
	shown, newline := strings.CutSuffix(line, "\n")
	shown = c.Env.Paint(s, shown)
	if newline {
		shown += "\n"
	}
	return shown
}

// paintHunk paints the line numbers in the first line of a hunk.
func (c *Comparison) paintHunk(line string) string {
	end := 2 + strings.Index(line[2:], "@@") + 2
	return c.Env.Paint(cli.Cyan, line[:end]) + line[end:]
}

// wordStyle returns the style of --word-diff.
func (c *Comparison) wordStyle() tree.WordStyle {
	colored := c.Env.Colored(c.Env.Terminal.Stdout)
	painted := func(s cli.Style, before, after string) [2]string {
		if colored {
			before, after = "\x1b["+string(s)+"m"+before, after+"\x1b[m"
		}
		return [2]string{before, after}
	}
	s := tree.WordStyle{Newline: "\n"}
	switch c.Form.Lines.Words {
	case "color":
		s.Old, s.New = painted(cli.Red, "", ""), painted(cli.Green, "", "")
	case "plain":
		s.Old, s.New = painted(cli.Red, "[-", "-]"), painted(cli.Green, "{+", "+}")
	case "porcelain":
		s.Old, s.New, s.Same = painted(cli.Red, "-", "\n"), painted(cli.Green, "+", "\n"), [2]string{" ", "\n"}
		s.Newline, s.Lines = "~\n", true
	}
	s.Head = func(line string) string {
		if line[0] == '@' {
			return c.paintHunk(line)
		}
		return c.paintLine(cli.Bold, line)
	}
	return s
}

// printRanges prints the ranges of bytes that differ in a binary file.
func (c *Comparison) printRanges(ctx context.Context, change compare.Change) error {
	ranges, err := c.changedRanges(ctx, change)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		what := readable.FormatSize(r.NewLen) + " changed"
		color := cli.Cyan
		switch {
		case r.OldLen == 0:
			what, color = readable.FormatSize(r.NewLen)+" added", cli.Green
		case r.NewLen == 0:
			what, color = readable.FormatSize(r.OldLen)+" removed", cli.Red
		case r.OldLen != r.NewLen:
			what = readable.FormatSize(r.OldLen) + " became " + readable.FormatSize(r.NewLen)
		}
		c.Env.Printf("%s\n", c.Env.Paint(color, fmt.Sprintf("bytes %d..%d -> %d..%d  %s",
			r.OldOff, r.OldOff+r.OldLen, r.NewOff, r.NewOff+r.NewLen, what)))
	}
	return nil
}

// changedRanges returns the ranges of bytes that differ, in whole chunks. It returns none if a list
// of chunks was purged or lost.
func (c *Comparison) changedRanges(ctx context.Context, change compare.Change) ([]tree.Range, error) {
	side := func(e *object.Entry) object.Entry {
		if e == nil {
			return object.Entry{}
		}
		return *e
	}
	ranges, err := compare.ChangedRanges(ctx, c.Old, c.New, side(change.Old), side(change.New))
	if object.PassOverContent(c.New.Objects, change.Path, object.Key{}, err) {
		return nil, nil // the caller reports the loss
	}
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", cli.QuoteArg(change.Path), err)
	}
	return ranges, nil
}
