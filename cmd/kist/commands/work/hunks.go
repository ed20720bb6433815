package work

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// hunkDialogue asks about the hunks of one file after the other.
type hunkDialogue struct {
	*show.Comparison
	mode hunkMode
	in   *bufio.Reader
	quit bool // the user has answered q
}

// hunkFile is a changed file with the user's decisions.
type hunkFile struct {
	compare.Change
	texts      compare.Texts
	properties []string // how permission bits and metadata differ; asked about before the hunks
	patch      *tree.Patch
	use        []decision // of the properties, and of each hunk; of an empty file one
	edited     bool
}

// decision is the user's decision about a hunk.
type decision uint8

const (
	undecided decision = iota
	useHunk
	skipHunk
)

// askAll asks about all changes. It returns the choices for the worktree and for the index.
func (d *hunkDialogue) askAll(ctx context.Context, changes []compare.Change) (worktree, index []stage.Chosen, err error) {
	idx, err := d.Repo.Index()
	if err != nil {
		return nil, nil, err
	}
	files, asked := 0, 0
	for change, err := range d.Near(ctx, changes) {
		if err != nil {
			return nil, nil, err
		}
		if _, conflict := idx.Conflict(change.Path); conflict {
			d.Env.Info("ignoring unmerged: %s", cli.QuotePath(change.Path))
			continue
		}
		if change.IsFolder() {
			continue
		}
		files++
		f, why, err := d.prepareFile(ctx, change)
		if err != nil {
			return nil, nil, fmt.Errorf("compare %s: %w", cli.QuoteArg(change.Path), err)
		}
		if why != "" {
			d.Env.Info("%s: %s", d.Env.Shown(d.Repo, change.Path), why)
			continue
		}
		asked++
		if err := d.askFile(ctx, f); err != nil {
			return nil, nil, err
		}
		if worktree, index, err = d.addChoice(ctx, f, worktree, index); err != nil {
			return nil, nil, err
		}
		if d.quit {
			break
		}
	}
	switch {
	case files == 0:
		d.complain("No changes.")
	case asked == 0:
		d.complain("Only binary files changed.")
	}
	return worktree, index, nil
}

// prepareFile prepares the questions about a changed file. If there can be none, it returns the reason.
func (d *hunkDialogue) prepareFile(ctx context.Context, change compare.Change) (*hunkFile, string, error) {
	f := &hunkFile{Change: change}
	for _, e := range []*object.Entry{change.Old, change.New} {
		if e != nil && e.Type != object.TypeFile && e.Type != object.TypeSymlink {
			return nil, "no file, left out", nil
		}
	}
	now := change.New
	if !d.mode.back {
		now = change.Old
	}
	switch {
	case now == nil && d.mode.worktree && d.Repo.Worktree().Exists(change.Path):
		return nil, "untracked, left out", nil
	case change.Old != nil && change.New != nil:
		if change.Old.Type != change.New.Type {
			return nil, "of another type now, left out", nil
		}
		f.properties = d.propertyLines(change)
	}

	var isText bool
	var err error
	if f.texts, isText, err = d.Comparison.Texts(ctx, change); err != nil || !isText {
		return nil, "not text, left out", err
	}
	if same, err := d.isUnchanged(ctx, f); err != nil || !same {
		return nil, "changed meanwhile, left out", err
	}
	f.patch = tree.NewPatch(f.texts.Old, f.texts.New)
	if d.mode.back {
		f.patch = tree.NewReversePatch(f.texts.Old, f.texts.New)
	}
	f.use = make([]decision, max(f.firstHunk()+f.patch.Len(), 1))
	return f, "", nil
}

// isUnchanged reports whether a file of the worktree still has the content that was compared.
func (d *hunkDialogue) isUnchanged(ctx context.Context, f *hunkFile) (bool, error) {
	switch {
	case compare.HaveSameData(f.Old, f.New):
		return true, nil
	case d.Old.Worktree:
		return stage.HasContent(ctx, d.Repo, f.Old, f.texts.Old)
	case d.New.Worktree:
		return stage.HasContent(ctx, d.Repo, f.New, f.texts.New)
	}
	return true, nil
}

// propertyLines describes the changes of a file besides its content. A new time alone counts
// only if nothing else has changed.
func (d *hunkDialogue) propertyLines(change compare.Change) (lines []string) {
	if old, new := change.Old, change.New; old.Mode != new.Mode {
		lines = append(lines, fmt.Sprintf("old mode %06o", show.UnixMode(old)), fmt.Sprintf("new mode %06o", show.UnixMode(new)))
	}
	metadata := d.MetadataLines(change.Old, change.New)
	rest := slices.DeleteFunc(slices.Clone(metadata), func(line string) bool { return strings.HasPrefix(line, "time ") })
	if len(lines)+len(rest) == 0 && compare.HaveSameData(change.Old, change.New) {
		return metadata
	}
	return append(lines, rest...)
}

// firstHunk returns the number of questions before those about hunks.
func (f *hunkFile) firstHunk() int {
	if f.Old == nil || f.New == nil {
		return 0
	}
	return min(len(f.properties), 1)
}

// hunkAt returns the number of the hunk of a question, and whether it is about a hunk.
func (f *hunkFile) hunkAt(at int) (int, bool) {
	i := at - f.firstHunk()
	return i, i >= 0 && i < f.patch.Len()
}

// undecidedAround returns the nearest questions before and after at that are not decided, or -1.
func (f *hunkFile) undecidedAround(at int) (before, after int) {
	before = at - 1
	for before >= 0 && f.use[before] != undecided {
		before--
	}
	after = slices.Index(f.use[at+1:], undecided)
	if after >= 0 {
		after += at + 1
	}
	return before, after
}

// decideRest sets the questions from at on that are not decided.
func (f *hunkFile) decideRest(at int, use decision) {
	for ; at < len(f.use); at++ {
		if f.use[at] == undecided {
			f.use[at] = use
		}
	}
}

// askFile asks about one file, until everything is decided.
func (d *hunkDialogue) askFile(ctx context.Context, f *hunkFile) error {
	head := slices.DeleteFunc(d.Header(f.Change), func(line string) bool {
		return slices.Contains(f.properties, line) || strings.HasPrefix(line, "time ")
	})
	if f.patch.Len() > 0 {
		oldName, newName := d.PatchNames(f.Change)
		head = append(head, "--- "+show.LineName(oldName), "+++ "+show.LineName(newName))
	}
	if f.New == nil { // git repeats these lines with each question
		head, f.properties = head[:1], head[1:]
	}
	d.printHead(head)

	for at := 0; !d.quit; {
		if at >= len(f.use) {
			at = 0
		}
		before, after := f.undecidedAround(at)
		if before < 0 && after < 0 && f.use[at] != undecided {
			break
		}
		letters := d.showHunk(f, at, before, after)
		answer, ok, err := d.readAnswer(ctx)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if answer == "" {
			continue
		}
		if at, err = d.carryOut(ctx, f, at, letters, answer); err != nil {
			return err
		}
	}
	d.Env.Printf("\n")
	return nil
}

// showHunk prints a hunk and the question. It returns the letters that are allowed besides the
// usual ones.
func (d *hunkDialogue) showHunk(f *hunkFile, at, before, after int) string {
	i, isHunk := f.hunkAt(at)
	var letters string
	add := func(ok bool, letter string) {
		if ok {
			letters += "," + letter
		}
	}
	add(before >= 0, "k")
	add(at > 0, "K")
	add(after >= 0, "j")
	add(at+1 < len(f.use), "J")
	add(len(f.use) > 1, "g,/")
	thing := "this hunk"
	switch {
	case f.New == nil:
		thing = "deletion"
	case f.Old == nil:
		thing = "addition"
	case !isHunk && f.Old.Mode != f.New.Mode:
		thing = "mode change"
	case !isHunk:
		thing = "metadata change"
	}
	if !isHunk || f.New == nil {
		d.printHead(f.properties)
	}
	if isHunk {
		add(f.patch.Parts(i) > 1, "s")
		add(f.New != nil, "e")
		d.PrintLines(f.patch.Hunk(i), 0)
	}
	d.printPrompt(fmt.Sprintf("(%d/%d) %s %s%s [y,n,q,a,d%s,?]? ", at+1, len(f.use), d.mode.verb, thing, d.mode.where, letters))
	return letters
}

// printHead prints the lines above a hunk.
func (d *hunkDialogue) printHead(lines []string) {
	for _, line := range lines {
		d.Env.Printf("%s\n", d.Env.Paint(cli.Bold, line))
	}
}

// complain prints why an answer has no effect.
func (d *hunkDialogue) complain(format string, args ...any) {
	fmt.Fprintln(d.Env.Stderr, d.Env.PaintErr(cli.BoldRed, cli.Printable(fmt.Sprintf(format, args...))))
}

// printPrompt prints a question.
func (d *hunkDialogue) printPrompt(text string) {
	d.Env.Printf("%s", d.Env.Paint(cli.Blue, text))
	if out, ok := d.Env.Stdout.(*cli.Results); ok {
		_ = out.Flush() // the results are flushed again at the end, with the same error
	}
}

// readAnswer reads an answer. It reports false at the end of the input.
func (d *hunkDialogue) readAnswer(ctx context.Context) (string, bool, error) {
	type line struct {
		text string
		err  error
	}
	lines := make(chan line, 1)
	go func() {
		text, err := d.in.ReadString('\n')
		lines <- line{text, err}
	}()
	select {
	case l := <-lines:
		return strings.TrimRight(l.text, "\r\n"), l.err == nil || l.text != "", nil
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
}

// carryOut carries out an answer, and returns the question to go on with.
func (d *hunkDialogue) carryOut(ctx context.Context, f *hunkFile, at int, letters, answer string) (int, error) {
	before, after := f.undecidedAround(at)
	next := after
	if next < 0 {
		next = len(f.use)
	}
	switch answer[0] {
	case 'y', 'Y':
		f.use[at] = useHunk
		return next, nil
	case 'n', 'N':
		f.use[at] = skipHunk
		return next, nil
	case 'a', 'A':
		f.decideRest(at, useHunk)
		return len(f.use), nil
	case 'd', 'D', 'q', 'Q':
		f.decideRest(at, skipHunk)
		d.quit = answer[0] == 'q' || answer[0] == 'Q'
		return len(f.use), nil
	}
	why, known := refusals[answer[0]]
	if !known {
		d.printHelp(letters)
		return at, nil
	}
	if !strings.Contains(letters, answer[:1]) {
		d.complain("%s", why)
		return at, nil
	}

	switch answer[0] {
	case 'K':
		return at - 1, nil
	case 'J':
		return at + 1, nil
	case 'k':
		return before, nil
	case 'j':
		return after, nil
	case 'g':
		return d.jumpTo(ctx, f, at, answer[1:])
	case '/':
		return d.searchHunk(ctx, f, at, answer[1:])
	case 's':
		i, _ := f.hunkAt(at)
		n := f.patch.Parts(i)
		f.patch.Split(i)
		f.use = slices.Replace(f.use, at, at+1, slices.Repeat(f.use[at:at+1], n)...)
		d.Env.Printf("%s\n", d.Env.Paint(cli.Bold, fmt.Sprintf("Split into %d hunks.", n)))
	case 'e':
		done, err := d.editHunk(ctx, f, at)
		if err != nil || !done {
			return at, err
		}
		f.use[at], f.edited = useHunk, true
		return next, nil
	}
	return at, nil
}

// refusals has the letters that are not always allowed, and git's words for that.
var refusals = map[byte]string{
	'K': "No previous hunk", 'J': "No next hunk", 'k': "No previous hunk", 'j': "No next hunk",
	'g': "No other hunks to goto", '/': "No other hunks to search",
	's': "Sorry, cannot split this hunk", 'e': "Sorry, cannot edit this hunk",
}

// printHelp explains the letters.
func (d *hunkDialogue) printHelp(letters string) {
	verb := strings.ToLower(d.mode.verb)
	lines := []string{
		"y - " + verb + " this hunk" + d.mode.where,
		"n - do not " + verb + " this hunk" + d.mode.where,
		"q - quit; do not " + verb + " this hunk or any of the remaining ones",
		"a - " + verb + " this hunk and all later hunks in the file",
		"d - do not " + verb + " this hunk or any of the later hunks in the file",
	}
	for _, line := range []string{
		"j - leave this hunk undecided, see next undecided hunk",
		"J - leave this hunk undecided, see next hunk",
		"k - leave this hunk undecided, see previous undecided hunk",
		"K - leave this hunk undecided, see previous hunk",
		"g - select a hunk to go to",
		"/ - search for a hunk matching the given regex",
		"s - split the current hunk into smaller hunks",
		"e - manually edit the current hunk",
	} {
		if strings.Contains(letters, line[:1]) {
			lines = append(lines, line)
		}
	}
	for _, line := range append(lines, "? - print help") {
		d.Env.Printf("%s\n", d.Env.Paint(cli.BoldRed, line))
	}
}

// hunksListed is the number of hunks that the answer g shows at a time.
const hunksListed = 20

// jumpTo goes to the hunk with the number in an answer. Without a number, it lists the hunks
// and asks for one.
func (d *hunkDialogue) jumpTo(ctx context.Context, f *hunkFile, at int, answer string) (int, error) {
	answer = strings.TrimSpace(answer)
	for i := max(at-hunksListed/2, 0); answer == ""; {
		end := min(i+hunksListed, len(f.use))
		for ; i < end; i++ {
			d.Env.Printf("%c%2d: %s\n", " +-"[f.use[i]], i+1, cli.Printable(f.summarizeHunk(i)))
		}
		if i < len(f.use) {
			d.printPrompt("go to which hunk (<ret> to see more)? ")
		} else {
			d.printPrompt("go to which hunk? ")
		}
		text, ok, err := d.readAnswer(ctx)
		if err != nil || !ok {
			return at, err
		}
		answer = strings.TrimSpace(text)
	}

	n, err := strconv.Atoi(answer)
	switch {
	case err != nil:
		d.complain("Invalid number: '%s'", answer)
	case n < 1 || n > len(f.use):
		d.complain("Sorry, only %s available.", readable.Plural(uint64(len(f.use)), "hunk", "hunks"))
	default:
		return n - 1, nil
	}
	return at, nil
}

// summarizeHunk describes a hunk in one line: its place, and the first changed line.
func (f *hunkFile) summarizeHunk(at int) string {
	i, isHunk := f.hunkAt(at)
	if !isHunk {
		return strings.Join(f.properties, ", ")
	}
	head, rest, _ := strings.Cut(string(f.patch.Hunk(i)), "\n")
	place, _, _ := strings.Cut(strings.TrimPrefix(head, "@@ "), " @@")
	first := ""
	for line := range strings.Lines(rest) {
		if line[0] != ' ' {
			first = strings.TrimRight(line, "\r\n")
			break
		}
	}
	return fmt.Sprintf("%-20s %.60s", place, first)
}

// searchHunk goes to the next hunk that matches the regular expression in an answer. Without
// one, it asks.
func (d *hunkDialogue) searchHunk(ctx context.Context, f *hunkFile, at int, pattern string) (int, error) {
	if pattern == "" {
		d.printPrompt("search for regex? ")
		text, ok, err := d.readAnswer(ctx)
		if err != nil || !ok || text == "" {
			return at, err
		}
		pattern = text
	}
	re, err := regexp.Compile("(?m)" + pattern)
	if err != nil {
		d.complain("Malformed search regexp %s: %v", pattern, err)
		return at, nil
	}
	for n := range f.use {
		at := (at + n) % len(f.use)
		if i, isHunk := f.hunkAt(at); isHunk && re.Match(f.patch.Hunk(i)) {
			return at, nil
		}
	}
	d.complain("No hunk matches the given pattern")
	return at, nil
}

// askYesNo asks a question until the answer is y or n. The end of the input counts as n.
func (d *hunkDialogue) askYesNo(ctx context.Context, question string) (bool, error) {
	for {
		d.printPrompt(question)
		text, ok, err := d.readAnswer(ctx)
		if err != nil || !ok {
			return false, err
		}
		switch strings.ToLower(text + " ")[0] {
		case 'y':
			return true, nil
		case 'n':
			return false, nil
		}
	}
}
