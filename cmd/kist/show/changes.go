package show

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/commits"
)

// ChangeForm are git's options for the form in which changes are shown.
type ChangeForm struct {
	Patch, none              bool
	Stat, shortStat, numStat bool
	nameOnly, nameStatus     bool
	nul                      bool // -z
	Context                  int  // lines around a change
	renames, noRenames       bool
	indent                   int // columns at the left that the graph uses
	Filter                   letterFilter
	Reverse                  bool // -R
	Lines                    LineForm
}

// LineForm are git's options for the comparison of lines and words.
type LineForm struct {
	allSpace, space, endSpace, blank bool
	Words                            string // of --word-diff; "none": lines are shown
}

// Register adds the options to a command.
func (f *ChangeForm) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.Patch, "patch", "p", false, "show which lines changed")
	flags.IntVarP(&f.Context, "unified", "U", 3, "show `N` lines around each change")
	flags.BoolVar(&f.Stat, "stat", false, "show how many lines of each file changed")
	flags.BoolVar(&f.shortStat, "shortstat", false, "show only the last line of --stat")
	flags.BoolVar(&f.numStat, "numstat", false, "like --stat, for programs: added, deleted, path")
	flags.BoolVar(&f.nameOnly, "name-only", false, "show only the paths of changed files")
	flags.BoolVar(&f.nameStatus, "name-status", false, "show paths, and what happened: A (added), M (modified), D (deleted), R (renamed), T (of another type), U (in conflict)")
	flags.BoolVarP(&f.none, "no-patch", "s", false, "show no changes")
	flags.BoolVarP(&f.nul, "null", "z", false, "end paths and commits with NUL, and do not quote paths (with --name-only, --name-status, --numstat)")
	flags.BoolVarP(&f.renames, "find-renames", "M", false, "find files that were renamed (the default)")
	flags.BoolVar(&f.noRenames, "no-renames", false, "show a renamed file as one deleted and one added")
	flags.Func("diff-filter", "show only changes with these `LETTERS` of --name-status; small letters leave them out", f.Filter.addLetters)
	f.Filter.pickaxe.register(cmd)
	flags.BoolVarP(&f.Reverse, "reverse-diff", "R", false, "show the changes from the new version to the old one")
	flags.BoolVarP(&f.Lines.allSpace, "ignore-all-space", "w", false, "ignore white space in lines")
	flags.BoolVarP(&f.Lines.space, "ignore-space-change", "b", false, "ignore changes of the amount of white space")
	flags.BoolVar(&f.Lines.endSpace, "ignore-space-at-eol", false, "ignore white space at the end of lines")
	flags.BoolVar(&f.Lines.blank, "ignore-blank-lines", false, "ignore changes of blank lines")
	flags.Var(cli.NewChoice(&f.Lines.Words, "none", "plain", "color", "porcelain"), "word-diff", "show which words changed")
	flags.Lookup("word-diff").NoOptDefVal = "plain"
	cmd.MarkFlagsMutuallyExclusive("name-only", "name-status", "no-patch")
}

// Settle checks the parsed options, and sets the options that they imply. If no option names
// a form, fallback sets it.
func (f *ChangeForm) Settle(env *cli.Env, fallback func(*ChangeForm)) error {
	if f.Context < 0 {
		return cli.Usagef("-U must not be negative")
	}
	if env.Cmd.Flags().Changed("unified") {
		f.Patch = true
	}
	if f.Lines.Words == "color" {
		env.Global.Color = "always" // as in git
	}
	f.renames = !f.noRenames
	if err := f.Filter.compilePattern(); err != nil {
		return err
	}
	if !f.Wanted() && !f.none {
		fallback(f)
	}
	if f.nameOnly || f.nameStatus { // as in git
		f.Patch = false
	}
	if f.none {
		f.Patch, f.Stat, f.shortStat, f.numStat = false, false, false, false
	}
	return nil
}

// Wanted reports whether the options name a form.
func (f *ChangeForm) Wanted() bool {
	return f.Patch || f.Stat || f.shortStat || f.numStat || f.nameOnly || f.nameStatus
}

// lineEnd returns the end of a line for programs.
func (f *ChangeForm) lineEnd() string {
	if f.nul {
		return "\x00"
	}
	return "\n"
}

// textOptions returns how texts are compared.
func (f *ChangeForm) textOptions() tree.TextOptions {
	o := tree.TextOptions{Context: f.Context, Blank: f.Lines.blank}
	switch {
	case f.Lines.allSpace:
		o.Space = tree.WithoutSpace
	case f.Lines.space:
		o.Space = tree.SpaceAmount
	case f.Lines.endSpace:
		o.Space = tree.SpaceAtEnd
	}
	return o
}

// letterFilter selects changes by git's letters, as --diff-filter does. The zero filter
// selects all.
type letterFilter struct {
	only, without string
	all           bool // all changes of a comparison with a selected one
	pickaxe
}

// addLetters adds a value of --diff-filter.
func (f *letterFilter) addLetters(text string) error {
	for _, letter := range text {
		switch {
		case letter == '*':
			f.all = true
		case strings.ContainsRune("ACDMRTUXB", letter):
			f.only += string(letter)
		case strings.ContainsRune("acdmrtuxb", letter):
			f.without += strings.ToUpper(string(letter))
		default:
			return fmt.Errorf("unknown letter %q", letter)
		}
	}
	return nil
}

// Set reports whether there is a filter.
func (f letterFilter) Set() bool { return f.axe != nil || f.only+f.without != "" || f.all }

// selectChanges returns the selected changes.
func (f letterFilter) selectChanges(changes []compare.Change) []compare.Change {
	left := func(c compare.Change) bool {
		return f.only != "" && !strings.Contains(f.only, c.Status()) || strings.Contains(f.without, c.Status())
	}
	if f.all && slices.ContainsFunc(changes, func(c compare.Change) bool { return !left(c) }) {
		return changes
	}
	return slices.DeleteFunc(changes, left)
}

// ChangeCounts has the numbers of changes of each sort.
type ChangeCounts struct {
	Added    int  `json:"added" doc:"the number of new files"`
	Modified int  `json:"modified" doc:"the number of changed files"`
	Deleted  int  `json:"deleted" doc:"the number of deleted files"`
	Renamed  int  `json:"renamed" doc:"the number of renamed files"`
	folders  int  // how many of these are folders
	Unknown  bool `json:"-"` // the changes are not known
}

func CountChanges(changes []tree.Change) ChangeCounts {
	var n ChangeCounts
	for _, c := range changes {
		switch c.Letter() {
		case 'A':
			n.Added++
		case 'D':
			n.Deleted++
		case 'R':
			n.Renamed++
		default:
			n.Modified++
		}
		if c.IsFolder() {
			n.folders++
		}
	}
	return n
}

// CommittedChanges counts the changes of a new commit.
func CommittedChanges(result *commits.CommitResult) ChangeCounts {
	n := CountChanges(result.Changes)
	n.Unknown = result.Unknown
	return n
}

// String returns the counts as in "3 files and 1 folder changed, 1 added, 3
// modified". A folder counts only if it is empty, or has other permission bits.
func (n ChangeCounts) String() string {
	if n.Unknown {
		return "what changed is not known"
	}
	files := n.Added + n.Modified + n.Deleted + n.Renamed - n.folders
	var what []string
	if files > 0 || n.folders == 0 {
		what = append(what, readable.Plural(uint64(files), "file", "files"))
	}
	if n.folders > 0 {
		what = append(what, readable.Plural(uint64(n.folders), "folder", "folders"))
	}
	return strings.Join(append([]string{strings.Join(what, " and ") + " changed"}, n.Parts()...), ", ")
}

// Parts returns the counts that are not 0, as in "1 added".
func (n ChangeCounts) Parts() []string {
	var parts []string
	for _, part := range []struct {
		n    int
		verb string
	}{{n.Added, "added"}, {n.Modified, "modified"}, {n.Deleted, "deleted"}, {n.Renamed, "renamed"}} {
		if part.n > 0 {
			parts = append(parts, readable.FormatCount(uint64(part.n))+" "+part.verb)
		}
	}
	return parts
}

// Work has the numbers of bytes that a command read and stored.
type Work struct {
	Read   uint64 `json:"bytes_read" doc:"the bytes that were read"`
	New    uint64 `json:"bytes_new" doc:"the part of them that was not stored before"`
	Stored uint64 `json:"bytes_stored" doc:"the size of that part as it is stored"`
}

func NewWork(read kist.Amount, s volume.Stats) Work {
	return Work{uint64(read.Bytes), uint64(s.NewBytes), uint64(s.StoredBytes)}
}

// String returns the work as in "12 MiB read, 3.1 MiB new, 1.0 MiB stored".
func (w Work) String() string {
	text := fmt.Sprintf("%s new, %s stored", readable.FormatSize(w.New), readable.FormatSize(w.Stored))
	if w.Read > 0 {
		text = readable.FormatSize(w.Read) + " read, " + text
	}
	return text
}

func (c *Comparison) showJSON(ctx context.Context, changes []compare.Change) error {
	for change, err := range c.nearForJSON(ctx, changes) {
		if err != nil {
			return err
		}
		v, err := c.changeJSON(ctx, change)
		if err != nil {
			return err
		}
		c.Env.JSON(v)
	}
	return nil
}

// changeJSON describes a change. Contents are read only for lines and ranges: not with
// --name-only and --name-status.
func (c *Comparison) changeJSON(ctx context.Context, change compare.Change) (jsonform.Change, error) {
	v := jsonform.Change{
		AtPath: jsonform.NewPath(change.Path), Status: change.Status(),
		From: change.From, FromRaw: jsonform.Raw(change.From), Similarity: change.Similarity,
		Old: jsonform.NewSide(change.Old), New: jsonform.NewSide(change.New),
	}
	if c.Form.nameOnly || c.Form.nameStatus || change.Unmerged {
		return v, nil
	}

	for side, e := range map[*jsonform.Side]*object.Entry{v.Old: change.Old, v.New: change.New} {
		purged, err := c.Repo.Purged(ctx, e)
		if err != nil {
			return v, err
		}
		if purged != nil {
			side.Purged = true
		}
	}

	n, err := c.countLines(ctx, change)
	if err != nil {
		return v, err
	}
	for side, e := range map[*jsonform.Side]*object.Entry{v.Old: change.Old, v.New: change.New} {
		if c.IsLost(e) {
			side.Lost = true
		}
	}
	if !n.binary {
		v.Added, v.Deleted = &n.added, &n.removed
		return v, nil
	}
	v.Binary = true
	v.Ranges, err = c.changedRanges(ctx, change)
	return v, err
}
