package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// noFile is the name of a missing file in the unified format.
const noFile = "/dev/null"

// showPatch prints a change as git does: a header, and the lines that differ. For a binary
// file, it prints the ranges of bytes that differ.
func (c *comparison) showPatch(ctx context.Context, change compare.Change) error {
	if change.Unmerged {
		c.env.printf("%s\n", c.env.paint(bold, "* Unmerged path "+quotePath(change.Path)))
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

func (c *comparison) showFilePatch(ctx context.Context, change compare.Change) error {
	if change.IsFolder() {
		c.env.printf("%s\n", c.env.paint(bold, c.folderLine(change)))
		return nil
	}
	t, isText, err := c.Texts(ctx, change)
	if err != nil {
		return fmt.Errorf("compare %s: %w", quoteArg(change.Path), err)
	}

	for _, line := range c.header(change) {
		c.env.printf("%s\n", c.env.paint(bold, line))
	}
	oldName, newName := c.patchNames(change)
	if isText {
		c.printPatch(tree.Unified(lineName(oldName), lineName(newName), t.Old, t.New, c.form.text()))
		return nil
	}
	c.env.printf("Binary files %s and %s differ\n", quotePath(oldName), quotePath(newName))
	for _, side := range []struct {
		name  string
		entry *object.Entry
	}{{oldName, change.Old}, {newName, change.New}} {
		purged, err := c.Repo.Purged(ctx, side.entry)
		if err != nil {
			return err
		}
		if purged != nil {
			c.env.printf("%s: %s\n", quotePath(side.name), printable(purged.String()))
		}
		if c.IsLost(side.entry) {
			c.env.printf("%s: content is lost\n", quotePath(side.name))
		}
	}
	return c.printRanges(ctx, change)
}

// folderLine describes the change of a folder. The format of git and patch has no folders,
// and they ignore this line.
func (c *comparison) folderLine(change compare.Change) string {
	name, old, new := quotePath(shownPath(change)), change.Old, change.New
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
	return strings.Join(append(lines, c.metadataLines(old, new)...), ", ")
}

// time returns the modification time of an entry.
func (c *comparison) time(e *object.Entry) string {
	at, _ := e.Modified()
	return object.Writable(at.In(c.env.Now().Location())).Format("2006-01-02 15:04:05.999999999 -0700")
}

// metadataLines describes the changes of attributes and recorded metadata.
func (c *comparison) metadataLines(old, new *object.Entry) (lines []string) {
	lines = attrLines(old, new)
	if old == nil || new == nil || old.Meta == nil || new.Meta == nil {
		return lines
	}
	a, b := old.Meta, new.Meta
	if from, to := ownerText(a), ownerText(b); from != to {
		lines = append(lines, printable(fmt.Sprintf("owner %s → %s", from, to)))
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
		lines = append(lines, how+" extended attribute "+quotePath(name))
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
		lines = append(lines, fmt.Sprintf("time %s → %s", c.time(old), c.time(new)))
	}
	return lines
}

// prefixes returns git's prefixes of the names of the two sides.
func (c *comparison) prefixes() (old, new string) {
	if c.form.reverse {
		return "b/", "a/"
	}
	return "a/", "b/"
}

// patchNames returns the names of the two sides of a change.
func (c *comparison) patchNames(change compare.Change) (old, new string) {
	old, new = c.prefixes()
	old, new = old+change.Source(), new+change.Path
	if change.Old == nil {
		old = noFile
	}
	if change.New == nil {
		new = noFile
	}
	return old, new
}

// lineName returns a name for a line that begins with --- or +++. As in git,
// a tab ends a name with spaces.
func lineName(name string) string {
	shown := quotePath(name)
	if shown == name && strings.Contains(name, " ") {
		shown += "\t"
	}
	return shown
}

// header returns the lines above the changed lines of a file.
func (c *comparison) header(change compare.Change) []string {
	a, b := c.prefixes()
	lines := []string{"diff --git " + quotePath(a+change.Source()) + " " + quotePath(b+change.Path)}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	old, new := change.Old, change.New
	switch {
	case old == nil:
		add("new file mode %06o", unixMode(new))
	case new == nil:
		add("deleted file mode %06o", unixMode(old))
	case old.Mode != new.Mode:
		add("old mode %06o", unixMode(old))
		add("new mode %06o", unixMode(new))
	}
	lines = append(lines, c.metadataLines(old, new)...)
	if change.From != "" {
		add("similarity index %d%%", change.Similarity)
		add("rename from %s", quotePath(change.From))
		add("rename to %s", quotePath(change.Path))
	}
	if !compare.HaveSameData(old, new) {
		line := fmt.Sprintf("index %s..%s", tree.ContentID(old).Short(), tree.ContentID(new).Short())
		if old != nil && new != nil && old.Mode == new.Mode {
			line += fmt.Sprintf(" %06o", unixMode(new))
		}
		lines = append(lines, line)
	}
	return lines
}

// unixMode returns an entry's type and permission bits as Unix has them in one
// number. As in git, those of a symlink mean nothing.
func unixMode(e *object.Entry) uint32 {
	bits := entryTypes[e.Type].bits
	if e.Type == object.TypeSymlink {
		return bits
	}
	return bits | uint32(e.Mode)
}

// printPatch prints text in the unified format, or the words that differ.
func (c *comparison) printPatch(text []byte) {
	if words := c.form.lines.words; words != "" && words != "none" {
		_, _ = c.env.Stdout.Write(tree.WordDiff(text, c.wordStyle()))
		return
	}
	c.printLines(text, 2)
}

// printLines prints lines in the unified format. The first ones have names.
func (c *comparison) printLines(text []byte, names int) {
	if !c.env.colored(c.env.Terminal.Stdout) {
		_, _ = c.env.Stdout.Write(text)
		return
	}
	for line := range strings.Lines(string(text)) {
		switch {
		case names > 0:
			names--
			line = c.paintLine(bold, line)
		case line[0] == '@':
			line = c.paintHunk(line)
		case line[0] == '-':
			line = c.paintLine(red, line)
		case line[0] == '+':
			line = c.paintLine(green, line)
		}
		c.env.printf("%s", line)
	}
}

// paintLine paints a line without its newline.
func (c *comparison) paintLine(s style, line string) string {
	shown, newline := strings.CutSuffix(line, "\n")
	shown = c.env.paint(s, shown)
	if newline {
		shown += "\n"
	}
	return shown
}

// paintHunk paints the line numbers in the first line of a hunk.
func (c *comparison) paintHunk(line string) string {
	end := 2 + strings.Index(line[2:], "@@") + 2
	return c.env.paint(cyan, line[:end]) + line[end:]
}

// wordStyle returns the style of --word-diff.
func (c *comparison) wordStyle() tree.WordStyle {
	colored := c.env.colored(c.env.Terminal.Stdout)
	painted := func(s style, before, after string) [2]string {
		if colored {
			before, after = "\x1b["+string(s)+"m"+before, after+"\x1b[m"
		}
		return [2]string{before, after}
	}
	s := tree.WordStyle{Newline: "\n"}
	switch c.form.lines.words {
	case "color":
		s.Old, s.New = painted(red, "", ""), painted(green, "", "")
	case "plain":
		s.Old, s.New = painted(red, "[-", "-]"), painted(green, "{+", "+}")
	case "porcelain":
		s.Old, s.New, s.Same = painted(red, "-", "\n"), painted(green, "+", "\n"), [2]string{" ", "\n"}
		s.Newline, s.Lines = "~\n", true
	}
	s.Head = func(line string) string {
		if line[0] == '@' {
			return c.paintHunk(line)
		}
		return c.paintLine(bold, line)
	}
	return s
}

// printRanges prints the ranges of bytes that differ in a binary file.
func (c *comparison) printRanges(ctx context.Context, change compare.Change) error {
	ranges, err := c.ranges(ctx, change)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		what := formatSize(r.NewLen) + " changed"
		color := cyan
		switch {
		case r.OldLen == 0:
			what, color = formatSize(r.NewLen)+" added", green
		case r.NewLen == 0:
			what, color = formatSize(r.OldLen)+" removed", red
		case r.OldLen != r.NewLen:
			what = formatSize(r.OldLen) + " became " + formatSize(r.NewLen)
		}
		c.env.printf("%s\n", c.env.paint(color, fmt.Sprintf("bytes %d..%d -> %d..%d  %s",
			r.OldOff, r.OldOff+r.OldLen, r.NewOff, r.NewOff+r.NewLen, what)))
	}
	return nil
}

// ranges returns the ranges of bytes that differ, in whole chunks. It returns none if a list
// of chunks was purged or lost.
func (c *comparison) ranges(ctx context.Context, change compare.Change) ([]tree.Range, error) {
	side := func(e *object.Entry) object.Entry {
		if e == nil {
			return object.Entry{}
		}
		return *e
	}
	ranges, err := compare.ChangedRanges(ctx, c.Old, c.New, side(change.Old), side(change.New))
	if errors.Is(err, object.ErrPurged) || object.PassOver(c.New.Objects, change.Path, object.Key{}, err) {
		return nil, nil // the caller reports the loss
	}
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", quoteArg(change.Path), err)
	}
	return ranges, nil
}
