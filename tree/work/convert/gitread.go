package convert

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
)

// GitOptions configure [ImportGit] and [ExportGit].
type GitOptions struct {
	Progress kist.Progress // counts commits as files, and bytes of content

	// Expect lists the branches and tags, with full names, that the stream must have. If one
	// is missing, it is in [GitImport.LeftOut]. Expect has no meaning for an export.
	Expect []string

	// LFSSize is the size in bytes from which on an export writes pointers of git-lfs; 0: it writes
	// none. LFSStore stores the content of such a file, and returns its SHA-256 in hexadecimal digits.
	LFSSize  uint64
	LFSStore func(content io.Reader) (sum string, err error)

	// LFS opens the content of a git-lfs pointer by its SHA-256, in hexadecimal digits. The error
	// is [fs.ErrNotExist] if the content is missing. Without LFS, all contents are.
	LFS func(sum string) (io.ReadCloser, error)
}

// GitImport is the result of [ImportGit].
type GitImport struct {
	Refs    []refs.Change // branches and tags, from their values here to those in git
	Commits int
	Skipped []object.Skipped // submodules, and paths that kist cannot have
	LeftOut []object.Skipped // branches and tags, by full name
	Changed []object.Skipped // commits and tags that kist could not store as they are
	Stats   volume.Stats
	Head    string // the branch that was checked out because HEAD had no commit; "": none

	// Signatures is the number of signatures in the stream. They are left out, because they fit only
	// the form of git.
	Signatures int
}

// ImportGit stores the commits of a stream that 'git fast-export' wrote (the format of
// git-fast-import(1)). The stream must end with "done": 'git fast-export
// --use-done-feature' writes that, and a stream without it is incomplete.
//
// It creates or moves all branches and tags of the stream, or none. The error matches
// [ErrDiverged] if a branch or tag here would lose commits, and [commits.ErrCheckedOut] if it
// is the checked-out branch. If HEAD's branch has no commit yet and the stream has it,
// ImportGit creates it last, in a step of its own, and checks it out.
//
// Dates, authors and messages are those in git, in UTF-8. An odd commit, path or name of a ref
// does not stop the import: it is repaired or left out, and listed. Files have no modification
// times. A stream that was imported before changes nothing.
func ImportGit(ctx context.Context, r *kist.Repository, stream io.Reader, o GitOptions) (*GitImport, error) {
	tx := r.Begin(volume.SessionOptions{})
	defer tx.Close()
	records, err := r.Purges().View()
	if err != nil {
		return nil, err
	}
	g := newGitReader(r, tx, records, stream, o)
	if err := g.readCommands(ctx); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrIncomplete
		}
		return nil, fmt.Errorf("git stream: %w", err)
	}

	found, err := g.changesOfRefs()
	if err != nil {
		return nil, err
	}
	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	var unborn *refs.Change // of HEAD's branch, if it has no commit yet
	others := slices.DeleteFunc(slices.Clone(found.Refs), func(c refs.Change) bool {
		if c.Name == refs.Heads+head.Branch && head.Unborn() && !r.IsBare() {
			unborn = &c
		}
		return unborn != nil && c.Name == unborn.Name
	})
	tx.NoteStep(func(ctx context.Context) error { return checkForward(ctx, r, head, others) })
	tx.Move(others...)
	err = tx.Publish(ctx)
	if found.Stats = tx.Stats(); err != nil || unborn == nil {
		return found, err
	}
	_, err = checkout.Switch(ctx, r, checkout.SwitchOptions{Rev: unborn.New.String(), Create: head.Branch, Progress: o.Progress})
	found.Head = head.Branch
	return found, err
}

// changesOfRefs returns the refs to change, and everything that is not as in git.
func (g *gitReader) changesOfRefs() (*GitImport, error) {
	found := &GitImport{Commits: len(g.commits), Signatures: g.signatures}
	for _, path := range slices.Sorted(maps.Keys(g.skipped)) {
		found.Skipped = append(found.Skipped, object.Skipped{Path: path, Reason: g.skipped[path]})
	}
	found.Changed = g.changed
	for name := range g.tags { // the stream may also set the ref to the commit of the tag
		delete(g.tips, refs.Tags+name)
	}
	for _, name := range slices.Sorted(maps.Keys(g.tips)) {
		if err := g.addRef(found, name, g.tips[name].id); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.tags)) {
		if err := g.addRef(found, refs.Tags+name, g.tags[name]); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.noCommit)) {
		if g.noCommit[name] {
			g.leaveOut(found, name, "it names no commit")
		}
	}
	for _, name := range g.Expect {
		if !g.hasRef(name) && !g.noCommit[name] {
			g.leaveOut(found, name, "git did not export it")
		}
	}
	return found, nil
}

// ErrIncomplete means that a stream ends too early.
var ErrIncomplete = errors.New("it ends without \"done\", so it is incomplete")

// ErrDiverged means that a branch or tag here has commits that the imported one lacks.
var ErrDiverged = errors.New("has commits that git does not have")

// checkForward returns an error if the change of a ref would lose commits, or concerns the
// checked-out branch.
func checkForward(ctx context.Context, r *kist.Repository, head refs.Head, changes []refs.Change) error {
	for _, c := range changes {
		if c.Name == refs.Heads+head.Branch {
			return fmt.Errorf("branch %q %w", head.Branch, commits.ErrCheckedOut)
		}
		if c.Old.IsZero() {
			continue
		}
		old, err := refs.Peel(ctx, r.Objects(), c.Old)
		if err != nil {
			return err
		}
		tip, err := refs.Peel(ctx, r.Objects(), c.New)
		if err != nil {
			return err
		}
		ok, err := history.IsAncestor(ctx, r.Objects(), old, tip)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%q %w", c.Name, ErrDiverged)
		}
	}
	return nil
}

// newGitReader returns a reader of a stream that stores objects, except purged ones.
func newGitReader(r *kist.Repository, objects object.ReadWriter, records *record.Effects, stream io.Reader, o GitOptions) *gitReader {
	return &gitReader{
		GitOptions: o, repo: r, objects: objects, dst: &kist.Withheld{Writer: objects, Purges: records},
		in: bufio.NewReaderSize(stream, 1<<20), tips: map[string]gitCommit{},
		blobs: map[string]gitBlob{}, commits: map[string]gitCommit{}, tags: map[string]object.ID{},
		tagged: map[string]gitCommit{}, gitOdd: gitOdd{skipped: map[string]string{}, noCommit: map[string]bool{}},
	}
}

// addRef adds the change of a ref. Refs that are neither branches nor tags have no
// meaning here.
func (g *gitReader) addRef(found *GitImport, name string, id object.ID) error {
	short, ok := strings.CutPrefix(name, refs.Heads)
	if !ok {
		if short, ok = strings.CutPrefix(name, refs.Tags); !ok {
			return nil
		}
	}
	var bad *refs.NameError
	if err := cmp.Or(refs.CheckShort(short), refs.CheckName(name)); errors.As(err, &bad) {
		g.leaveOut(found, name, "the name "+bad.Reason)
		return nil
	}
	old, err := g.repo.Refs().Get(name)
	if err != nil && !errors.Is(err, refs.ErrNotFound) {
		return err
	}
	if old != id {
		found.Refs = append(found.Refs, refs.Change{Name: name, Old: old, New: id, Reason: "import from git"})
	}
	return nil
}

// gitCommit is a commit of the stream.
type gitCommit struct {
	id   object.ID
	tree tree.Info
}

// gitReader reads a stream. Marks are kept as they are written, as in ":12".
type gitReader struct {
	GitOptions
	gitOdd
	repo    *kist.Repository
	objects object.ReadWriter
	dst     object.Writer // drops purged contents
	in      *bufio.Reader
	next    string // the line to be read next, if peeked
	peeked  bool

	blobs   map[string]gitBlob   // by mark
	commits map[string]gitCommit // by mark
	tips    map[string]gitCommit // by full name of the ref
	tags    map[string]object.ID // annotated tags, by short name
	tagged  map[string]gitCommit // the commits of annotated tags, by mark
	done    kist.Amount
}

// readCommands reads all commands of the stream.
func (g *gitReader) readCommands(ctx context.Context) error {
	for {
		line, err := g.readLine()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		command, arg, _ := strings.Cut(line, " ")
		switch command {
		case "", "feature", "progress", "option", "checkpoint":
		case "done":
			return nil
		case "blob":
			err = g.storeBlob(ctx)
		case "reset":
			err = g.setRef(arg)
		case "commit":
			err = g.readCommit(ctx, arg)
		case "tag":
			err = g.readTag(ctx, arg)
		default:
			err = fmt.Errorf("unknown command %q", line)
		}
		if err != nil {
			return err
		}
	}
}

// maxLine bounds a line, in bytes.
const maxLine = 1 << 20

// readLine returns the next line without its end.
func (g *gitReader) readLine() (string, error) {
	if g.peeked {
		g.peeked = false
		return g.next, nil
	}
	var line []byte
	for {
		part, err := g.in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if err == bufio.ErrBufferFull && len(line) < maxLine {
			continue
		}
		if err == bufio.ErrBufferFull {
			err = fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		if err == io.EOF && len(line) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return "", err
	}
	return strings.TrimSuffix(string(line), "\n"), nil
}

// optional returns the argument of the next line if it is the given command. Otherwise
// the line stays.
func (g *gitReader) optional(command string) (arg string, ok bool, err error) {
	line, err := g.readLine()
	if err != nil {
		return "", false, err
	}
	if arg, ok = strings.CutPrefix(line, command+" "); !ok {
		g.next, g.peeked = line, true
		return "", false, nil
	}
	return arg, true, nil
}

// readData returns the data that follows, which must be used before the next line is read.
func (g *gitReader) readData() (*io.LimitedReader, error) {
	arg, ok, err := g.optional("data")
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseInt(arg, 10, 64)
	if !ok || err != nil || n < 0 {
		return nil, errors.New("data with its number of bytes is missing")
	}
	return &io.LimitedReader{R: g.in, N: n}, nil
}

// endData skips the line feed that may follow data.
func (g *gitReader) endData() {
	if next, err := g.in.Peek(1); err == nil && next[0] == '\n' {
		_, _ = g.in.Discard(1)
	}
}

// readMessage returns the message that follows in UTF-8, without NUL. A message that is too long is cut.
func (g *gitReader) readMessage(decode func(string) string) (string, error) {
	d, err := g.readData()
	if err != nil {
		return "", err
	}
	size := d.N
	text, err := io.ReadAll(io.LimitReader(d, object.MaxMessageSize))
	if err == nil {
		_, err = io.Copy(io.Discard, d)
	}
	if err == nil && d.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", err
	}

	g.endData()
	if size > object.MaxMessageSize { // perhaps in the middle of a character
		text = bytes.TrimRightFunc(text, func(r rune) bool { return r == utf8.RuneError })
	}
	message := strings.ReplaceAll(decode(string(text)), "\x00", "\uFFFD")
	short := object.CutText(message, object.MaxMessageSize)
	if size > object.MaxMessageSize || short != message {
		g.noteChange("its message has %d bytes, and is cut to %d", size, len(short))
	}
	return short, nil
}

// storeBlob reads a blob and stores it.
func (g *gitReader) storeBlob(ctx context.Context) error {
	mark, _, err := g.optional("mark")
	if err == nil {
		_, _, err = g.optional("original-oid")
	}
	if err != nil {
		return err
	}
	g.blobs[mark], err = g.storeDataAsFile(ctx)
	return err
}

// gitBlob is a blob of the stream.
type gitBlob struct {
	object.Entry
	lfs   *lfsPointer // nil for most blobs
	annex bool        // whether it is a pointer of git-annex
}

// storeDataAsFile stores the data that follows as the content of a file.
func (g *gitReader) storeDataAsFile(ctx context.Context) (gitBlob, error) {
	d, err := g.readData()
	if err != nil {
		return gitBlob{}, err
	}
	size := d.N
	var pointer *lfsPointer
	annex := false
	if size <= maxPointer {
		start, _ := g.in.Peek(int(size))
		pointer = parsePointer(start)
		annex = bytes.HasPrefix(start, []byte(annexPointer))
	}
	stored, err := g.repo.Worktree().StoreStream(ctx, g.dst, d, nil)
	if err == nil && d.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	g.endData()
	g.done.Bytes += size
	e := stored.Entry
	return gitBlob{object.Entry{Type: object.TypeFile, Size: e.Size, Inline: e.Inline, Content: e.Content}, pointer, annex}, err
}

// setRef sets a ref, or makes the next commit on it a root.
func (g *gitReader) setRef(name string) error {
	from, ok, err := g.optional("from")
	if err == io.EOF {
		err = nil
	}
	if err != nil || !ok {
		delete(g.tips, name)
		return err
	}
	if g.isNoCommit(from) {
		_, isBlob := g.blobs[from]
		g.noCommit[name] = isBlob // git removes a ref in this way, too, before it writes a tag of a tag
		delete(g.tips, name)
		delete(g.tags, strings.TrimPrefix(name, refs.Tags))
		return nil
	}
	g.tips[name], err = g.commitAt(from)
	return err
}

// commitAt returns the commit with a mark, or that of a ref.
func (g *gitReader) commitAt(name string) (gitCommit, error) {
	if c, ok := g.commits[name]; ok {
		return c, nil
	}
	if c, ok := g.tips[name]; ok {
		return c, nil
	}
	return gitCommit{}, fmt.Errorf("the stream has no commit %q", name)
}

// readCommit reads a commit and stores it on a ref.
func (g *gitReader) readCommit(ctx context.Context, ref string) error {
	mark, err := g.readMark("commit")
	if err != nil {
		return err
	}
	c := &object.Commit{}
	if err := g.describe(c); err != nil {
		return err
	}
	base, err := g.readParents(ref, c)
	if err != nil {
		return err
	}
	info, err := g.readChanges(ctx, base.tree)
	if err != nil {
		return err
	}
	return g.storeCommit(ctx, ref, mark, c, info)
}

// readMark reads the mark of a commit or tag, and its ID in git.
func (g *gitReader) readMark(kind string) (mark string, err error) {
	if mark, _, err = g.optional("mark"); err != nil {
		return "", err
	}
	g.object = kind + " " + mark
	id, _, err := g.optional("original-oid")
	g.object = kind + " " + cmp.Or(id, mark)
	return mark, err
}

// describe reads the author, committer and message of a commit.
func (g *gitReader) describe(c *object.Commit) error {
	author, authored, err := g.optional("author")
	if err != nil {
		return err
	}
	committer, ok, err := g.optional("committer")
	if err == nil && !ok {
		err = errors.New("a commit without a committer")
	}
	if err != nil {
		return err
	}
	if err := g.skipSignatures(); err != nil {
		return err
	}
	encoding, _, err := g.optional("encoding")
	if err != nil {
		return err
	}

	decode := decoder(encoding)
	c.Message, err = g.readMessage(decode)
	c.Committer = g.readableStamp("committer", committer, decode)
	c.Author = c.Committer
	if authored {
		c.Author = g.readableStamp("author", author, decode)
	}
	return err
}

// skipSignatures skips the signatures of a commit, one for each of git's hashes, and counts them as
// one.
func (g *gitReader) skipSignatures() error {
	for n := 0; ; n++ {
		if _, found, err := g.optional("gpgsig"); err != nil || !found {
			g.signatures += min(n, 1)
			return err
		}
		d, err := g.readData()
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, d); err != nil {
			return err
		}
		if d.N > 0 {
			return io.ErrUnexpectedEOF
		}
		g.endData()
	}
}

// gitSignatures are the lines with which signatures in the message of a tag begin.
var gitSignatures = []string{"-----BEGIN PGP SIGNATURE-----", "-----BEGIN PGP MESSAGE-----", "-----BEGIN SIGNED MESSAGE-----", "-----BEGIN SSH SIGNATURE-----"}

// withoutSignature returns the message of a tag without the signature at its end, and counts it. As
// in git, the last line that begins one counts.
func (g *gitReader) withoutSignature(message string) string {
	at, end := 0, len(message)
	for line := range strings.Lines(message) {
		if slices.ContainsFunc(gitSignatures, func(begin string) bool { return strings.HasPrefix(line, begin) }) {
			end = at
		}
		at += len(line)
	}
	if end < len(message) {
		g.signatures++
	}
	return message[:end]
}

// readParents reads the parents of a commit, and returns the first one. Without "from", that
// is the commit that the ref has.
func (g *gitReader) readParents(ref string, c *object.Commit) (base gitCommit, err error) {
	base = g.tips[ref]
	for _, command := range []string{"from", "merge"} {
		for {
			name, ok, err := g.optional(command)
			if err != nil {
				return base, err
			}
			if !ok {
				break
			}
			parent, err := g.commitAt(name)
			if err != nil {
				return base, err
			}
			if command == "from" {
				base = parent
			} else {
				c.Parents = append(c.Parents, parent.id)
			}
		}
		if command == "from" && !base.id.IsZero() {
			c.Parents = []object.ID{base.id}
		}
	}
	seen := map[object.ID]bool{}
	c.Parents = slices.DeleteFunc(c.Parents, func(id object.ID) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
	return base, nil
}

// storeCommit stores a commit.
func (g *gitReader) storeCommit(ctx context.Context, ref, mark string, c *object.Commit, info tree.Info) error {
	c.Tree, c.Files, c.Bytes = info.ID, info.Files, info.Bytes
	id, err := object.PutNode(ctx, g.objects, object.KindCommit, c)
	if err != nil {
		return err
	}
	g.tips[ref] = gitCommit{id, info}
	g.commits[mark] = g.tips[ref]
	g.done.Files++
	if g.Progress != nil {
		g.Progress(g.done, kist.Amount{})
	}
	return nil
}

// readChanges reads the changes of a commit and returns its tree. A removal does not remove
// files that the same commit adds below the path, even if it comes after them: git
// fast-export 2.39 writes it so if a folder replaces a file, and fast-import then loses the
// files.
func (g *gitReader) readChanges(ctx context.Context, base tree.Info) (tree.Info, error) {
	edits := map[string]*object.Entry{} // nil: removed
	for {
		line, err := g.readLine()
		if err != nil {
			return base, err
		}
		switch op, arg, _ := strings.Cut(line, " "); op {
		case "M":
			if err := g.readModification(ctx, arg, edits); err != nil {
				return base, err
			}
			continue
		case "D":
			path, err := gitPath(arg)
			if bad := (*tree.PathError)(nil); errors.As(err, &bad) {
				continue // it was not added either
			}
			if err != nil {
				return base, err
			}
			edits[path] = nil
			continue
		case "deleteall":
			base = tree.Info{}
			clear(edits)
			continue
		case "R", "C", "N":
			return base, fmt.Errorf("command %q: write the stream without -M, -C and notes", op)
		}
		g.next, g.peeked = line, true
		break
	}
	return editTree(ctx, g.objects, base, edits)
}

// readModification reads the argument of an M command, and inline data after it.
func (g *gitReader) readModification(ctx context.Context, arg string, edits map[string]*object.Entry) error {
	fields := strings.SplitN(arg, " ", 3)
	if len(fields) < 3 {
		return fmt.Errorf("command %q: a mode, a mark and a path are needed", "M "+arg)
	}
	if len(edits) >= maxEdits {
		return fmt.Errorf("a commit changes more than %d paths", maxEdits)
	}
	path, err := gitPath(fields[2])
	bad := (*tree.PathError)(nil)
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	err = nil
	if bad == nil && fields[0] == "160000" {
		g.skipped[path] = "submodule"
		edits[path] = nil
		return nil
	}
	blob, ok := g.blobs[fields[1]]
	if fields[1] == "inline" {
		blob, err = g.storeDataAsFile(ctx)
		ok = true
	}
	if err == nil && !ok && bad == nil {
		err = fmt.Errorf("the stream has no blob %q", fields[1])
	}
	if bad != nil && err == nil {
		g.skipped[bad.Path] = bad.Err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	edits[path], err = g.entryFor(ctx, path, fields[0], blob)
	return err
}

// entryFor returns the entry of a file or symlink, or nil if kist leaves it out.
func (g *gitReader) entryFor(ctx context.Context, path, mode string, blob gitBlob) (*object.Entry, error) {
	e, reason, err := blob.Entry, "", error(nil)
	switch mode {
	case "100644", "644", "100755", "755":
		if blob.lfs != nil {
			e, reason, err = g.resolveLFSPointer(ctx, blob)
		}
		if blob.annex {
			reason = "a pointer of git-annex; the content is not imported"
		}
		e.Mode = 0o644
		if strings.HasSuffix(mode, "755") {
			e.Mode = 0o755
		}
		if _, name := tree.Split(path); name == gitAttributes && err == nil {
			return g.withoutBlock(ctx, e)
		}
	case "120000":
		if e, reason, err = g.entryForSymlink(ctx, e); reason != "" && err == nil {
			g.skipped[path] = reason
			return nil, nil
		}
		if strings.Contains(e.Target, annexObjects) {
			reason = "a link of git-annex; the content is not imported"
		}
	default:
		return nil, fmt.Errorf("%q: unknown mode %s", path, mode)
	}
	if reason != "" {
		g.skipped[path] = reason
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	return &e, nil
}

// maxEdits bounds the paths that one commit changes, which are in memory together. A tree of a few
// KiB can stand for any number of paths.
const maxEdits = 10_000_000

// entryForSymlink returns the entry of a symlink whose target is the content of e, or the reason why
// there can be no such symlink.
func (g *gitReader) entryForSymlink(ctx context.Context, e object.Entry) (link object.Entry, reason string, err error) {
	if e.Size > object.MaxTargetSize {
		return e, fmt.Sprintf("a symlink with a target of %d bytes", e.Size), nil
	}
	target, err := io.ReadAll(object.NewContentReader(ctx, g.objects, e))
	switch {
	case err != nil:
	case len(target) == 0:
		reason = "a symlink with an empty target"
	case bytes.IndexByte(target, 0) >= 0:
		reason = "a symlink with a NUL byte in its target"
	}
	return object.Entry{Type: object.TypeSymlink, Mode: 0o777, Target: string(target)}, reason, err
}

// readTag reads an annotated tag and stores it.
func (g *gitReader) readTag(ctx context.Context, name string) error {
	mark, _, err := g.optional("mark")
	if err != nil {
		return err
	}
	from, _, err := g.optional("from")
	if err != nil {
		return err
	}
	g.object = "tag " + name
	target, nested := g.tagged[from]
	if nested && !target.id.IsZero() {
		g.noteChange("it names another tag, and now names that one's commit")
	} else if nested {
		// The other tag names no commit.
	} else if target, err = g.commitAt(from); err != nil && !g.isNoCommit(from) {
		return err
	}
	if _, _, err = g.optional("original-oid"); err != nil {
		return err
	}
	t := &object.Tag{Target: target.id, Name: name}
	tagger, ok, err := g.optional("tagger")
	if err != nil {
		return err
	}
	decode := decoder("")
	if ok {
		t.Tagger = g.readableStamp("tagger", tagger, decode)
	}
	message, err := g.readMessage(decode)
	if err != nil {
		return err
	}
	t.Message = g.withoutSignature(message)
	g.tagged[mark] = target
	g.noCommit[refs.Tags+name] = target.id.IsZero()
	if target.id.IsZero() {
		delete(g.tips, refs.Tags+name)
		return nil
	}
	if refs.CheckShort(name) != nil {
		g.tags[name] = target.id // addRef leaves it out
		return nil
	}
	g.tags[name], err = object.PutNode(ctx, g.objects, object.KindTag, t)
	return err
}
