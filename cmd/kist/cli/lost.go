package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/tracking"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/worktree"
)

// lostJSON is an object whose loss was accepted.
type lostJSON struct {
	problemJSON
	Who string `json:"who"` // who accepted it on the remote; empty: here
}

func newLostJSON(list []tracking.LostObject) []lostJSON {
	var out []lostJSON
	for _, gap := range list {
		out = append(out, lostJSON{newProblemJSON(gap.Problem), gap.Who})
	}
	return out
}

// printLost names the objects that neither a remote nor the repository has, with
// the commits and paths that they affect.
func (e *Env) printLost(ctx context.Context, r *kist.Repository, name string, list []tracking.LostObject) {
	if len(list) == 0 {
		return
	}
	e.warn("%s on %s, and here: the loss was accepted", plural(uint64(len(list)), "object is missing", "objects are missing"), quoteArg(name))
	if e.global.quiet {
		return
	}
	for i, gap := range list {
		if i == shownProblems {
			e.tell("and %s more; --json shows all\n", formatCount(uint64(len(list)-i)))
			break
		}
		by := ""
		if gap.Who != "" {
			by = ", by " + printable(gap.Who)
		}
		e.tell("accepted as lost: %s %s%s\n", gap.Key.Kind, gap.Key.ID, by)
		e.printAffected(ctx, r, gap.Commits, gap.Paths)
	}
}

// lostAt is an object whose loss was accepted, and the path of its folder or file,
// or the name of a branch or tag at it. path may be empty.
type lostAt struct {
	path string
	key  object.Key
}

func (l lostAt) String() string {
	if l.path == "" {
		return l.key.String()
	}
	return quotePath(l.path) + ": " + l.key.String()
}

// losses are the accepted losses that a command passes over. A nil *losses takes none.
type losses struct {
	all     map[lostAt]bool
	base    string          // what paths start from
	folders map[string]bool // passed over since begin
}

// passesOverLost lets a command that only shows something go on without objects
// whose loss was accepted. It names them in the end, with exit status 3.
func passesOverLost(cmd *cobra.Command, e *Env) {
	mayExit(cmd, exitPartial)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e.repo.lost = newLosses()
		err := e.repo.lost.pass(run(cmd, args))
		lost := e.repo.lost.err()
		if lost == nil || err == nil || outcomeOf(err).quiet {
			return cmp.Or(lost, err)
		}
		e.warn("%v", lost)
		return err
	}
}

func newLosses() *losses { return &losses{all: map[lostAt]bool{}} }

// tip reports whether the commit of a branch or tag is lost, and notes it.
func (l *losses) tip(ctx context.Context, r *kist.Repository, name string) bool {
	_, _, err := r.ReadCommit(ctx, name)
	key, lost := object.LostKey(err)
	if lost {
		l.add(shortRef(name), key)
	}
	return lost
}

// hook returns what takes the losses that a repository finds.
func (l *losses) hook() func(path string, key object.Key) {
	if l == nil {
		return nil
	}
	return l.add
}

func (l *losses) add(path string, key object.Key) {
	path = strings.TrimSuffix(tree.Join(l.base, path), "/")
	l.all[lostAt{path, key}] = true
	if l.folders != nil && key.Kind == object.KindTree {
		l.folders[path] = true
	}
}

// begin has paths start from base, and forgets the folders for has.
func (l *losses) begin(base string) {
	if l != nil {
		l.base, l.folders = base, map[string]bool{}
	}
}

// has reports whether path is in a folder that was passed over since begin.
func (l *losses) has(path string) bool {
	if l == nil || len(l.folders) == 0 {
		return false
	}
	for path != "" {
		if path, _ = tree.Split(path); l.folders[path] {
			return true
		}
	}
	return false
}

// pass takes err if it is about a lost object, and returns any other error. A
// command cannot go on without a commit.
func (l *losses) pass(err error) error {
	key, lost := object.LostKey(err)
	if !lost || key.Kind == object.KindCommit {
		return err
	}
	l.add("", key)
	return nil
}

// err returns the error that names all losses, or nil.
func (l *losses) err() error {
	for lost := range l.all {
		if lost.path != "" {
			delete(l.all, lostAt{key: lost.key})
		}
	}
	n := len(l.all)
	if n == 0 {
		return nil
	}
	text := plural(uint64(n), "object is lost and left out:", "objects are lost and left out:")
	list := slices.SortedFunc(maps.Keys(l.all), func(a, b lostAt) int {
		return cmp.Or(tree.ComparePaths(a.path, b.path), a.key.Compare(b.key))
	})
	for i, lost := range list {
		if i == detailLines {
			text += "\nand " + formatCount(uint64(n-i)) + " more"
			break
		}
		text += "\n" + lost.String()
	}
	return hintf(failf(exitPartial, "lost", "%s", text), "'kist verify' names the commits; a fetch from a remote that has these objects brings them back")
}

// purgedJSON is a content that was purged as purge --list prints it with --json.
type purgedJSON struct {
	ID     object.ID `json:"id"`
	Kind   string    `json:"kind"`
	Time   time.Time `json:"time"`
	Who    string    `json:"who"`
	Host   string    `json:"host"`
	Reason string    `json:"reason"`
	Here   bool      `json:"here"` // the object; its chunks may be gone
}

// listPurged lists the purged contents.
func (e *Env) listPurged(ctx context.Context, r *kist.Repository) error {
	list, err := purge.All(r)
	if err != nil {
		return err
	}
	for _, rec := range list {
		here, err := r.Objects().Has(ctx, rec.Key)
		if err != nil {
			return err
		}
		if e.global.json {
			if err := e.json(purgedJSON{rec.Key.ID, rec.Key.Kind.String(), rec.Time, rec.Who, rec.Host, rec.Reason, here}); err != nil {
				return err
			}
			continue
		}
		note := ""
		if here {
			note = ", still here"
		}
		e.printf("%s %s purged on %s by %s%s\n", rec.Key.Kind, e.paint(yellow, rec.Key.ID.Short()),
			rec.Time.In(e.Now().Location()).Format("2006-01-02 15:04"), printable(rec.Who), note)
		for line := range strings.SplitSeq(rec.Reason, "\n") {
			if line != "" {
				e.printf("  %s\n", printable(line))
			}
		}
	}
	return nil
}

// undoPurge takes back that contents were purged.
func (e *Env) undoPurge(ctx context.Context, r *kist.Repository, ids []string) error {
	for _, id := range ids {
		rec, err := purge.Undo(ctx, r, id)
		switch {
		case errors.Is(err, object.ErrNotFound):
			return hintf(failf(exitFailed, "gone", "%s is gone, or a part of it: %w", quoteArg(id), err), "whoever still has the content can undo it there, and push")
		case errors.Is(err, purge.ErrNotPurged):
			return hintf(failf(exitFailed, "not-found", "%w", err), "'kist purge --list' lists the purged content")
		case err != nil:
			return err
		}
		if e.global.json {
			err = e.json(purgedJSON{rec.Key.ID, rec.Key.Kind.String(), rec.Time, rec.Who, rec.Host, rec.Reason, true})
		} else {
			e.tell("%s %s is no longer purged\n", rec.Key.Kind, rec.Key.ID.Short())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isPartial reports whether err says that some paths could not be written, but
// the command did all else.
func isPartial(err error) bool {
	var failed *worktree.ApplyError
	return errors.As(err, &failed) && !failed.Stopped
}

// unwritten returns the error of a command that wrote to the worktree. If only
// some paths could not be written, the exit status is 3, and they are named. If
// their content is damaged or missing, a hint says where to look.
func (e *Env) unwritten(r *kist.Repository, err error) error {
	return unwritten(err, func(path string) string { return e.shown(r, path) })
}

// unwrittenBelow is unwritten for a command that wrote to another folder.
func (e *Env) unwrittenBelow(dir string, err error) error {
	return unwritten(err, func(path string) string { return quotePath(filepath.Join(dir, path)) })
}

// halfDone adds advice to the error of a checkout that has stopped on its way.
func halfDone(err error) error {
	if isA[*worktree.ApplyError](err) {
		return hintf(err, "some files are from the new commit, others unchanged: run the command again to continue, or 'kist checkout --force' to go back")
	}
	return err
}

func unwritten(err error, shown func(path string) string) error {
	var failed *worktree.ApplyError
	if !isPartial(err) || !errors.As(err, &failed) {
		return err
	}
	var text strings.Builder
	text.WriteString(plural(uint64(len(failed.Failed)), "path", "paths") + " could not be written; everything else was:")
	for i, f := range failed.Failed {
		if i == detailLines {
			text.WriteString("\nand " + formatCount(uint64(len(failed.Failed)-i)) + " more")
			break
		}
		text.WriteString("\n" + shown(f.Path) + ": " + bareError(f.Err))
	}
	if errors.Is(err, object.ErrCorrupt) || errors.Is(err, object.ErrNotFound) {
		return hintf(failf(exitPartial, "", "%s", text.String()), "'kist verify' lists the damage, and 'kist verify --repair' looks for intact copies")
	}
	return failf(exitPartial, "", "%s", text.String())
}

// partial returns the error of a command that did its work except for some paths: it
// names them, and has exit status 3. It is nil if there are none.
func (e *Env) partial(r *kist.Repository, skipped []object.Skipped) error {
	return e.partialOf(r, skipped, uint64(len(skipped)))
}

// partialOf is partial if only the first of all paths are at hand.
func (e *Env) partialOf(r *kist.Repository, skipped []object.Skipped, all uint64) error {
	if all == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s skipped", plural(all, "path was", "paths were"))
	for i, s := range skipped {
		if i == detailLines {
			break
		}
		fmt.Fprintf(&text, "\n%s", e.shownSkipped(r, s))
	}
	if more := all - uint64(min(len(skipped), detailLines)); more > 0 {
		fmt.Fprintf(&text, "\nand %s more", formatCount(more))
	}
	return failf(exitPartial, "", "%s", text.String())
}

func (e *Env) shownSkipped(r *kist.Repository, s object.Skipped) string {
	return e.shown(r, s.Path) + ": " + printable(s.Reason)
}

// bareError returns the reason of an error without its path, which the caller
// prints.
func bareError(err error) string {
	var purged *kist.PurgedError
	if errors.As(err, &purged) {
		return purged.Error()
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
