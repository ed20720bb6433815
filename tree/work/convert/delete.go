package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Deleting an imported folder takes these steps. A kill may come after each of them, and within:
//
//  1. The folder is compared with its commit, and all content of the commit is read.
//  2. A file is made in the folder, with halfMark and the ID of the commit as its name. From then
//     on, files may be missing.
//  3. Folder by folder, stat data is compared and files are removed. The mark goes last, and then
//     the empty folder.
//
// An import of a folder with a mark takes the same steps, and accepts that files are missing.
//
// The folder and the one above it stay open meanwhile, and all steps work through them. So
// another user who exchanges a folder on the path cannot make kist delete another one.
const halfMark = ".kist-half-deleted-"

// ErrHalfDeleted is matched by the error for a folder that an interrupted import was deleting.
var ErrHalfDeleted = errors.New("an interrupted import has begun to delete this folder, so it is incomplete")

// NotDeletedError is the error for an imported folder that cannot be deleted. Its files are
// all there, unless ErrHalfDeleted matches too.
type NotDeletedError struct {
	Path   string
	Reason string
	Files  []string // the files that the reason concerns
	half   bool
}

func (e *NotDeletedError) Error() string {
	return fmt.Sprintf("%q was not deleted: %s", e.Path, e.Reason)
}

// Is makes errors.Is(err, ErrHalfDeleted) true for an incomplete folder.
func (e *NotDeletedError) Is(target error) bool { return e.half && target == ErrHalfDeleted }

// errExchanged means that a path leads to another folder than before.
var errExchanged = errors.New("another folder took its place meanwhile")

// openSame opens the folder of a source by a function. The folder must still be the one that
// [Folder] found.
func (s *Source) openSame(open func() (*os.File, error)) (*os.File, error) {
	dir, err := open()
	if err != nil {
		return nil, err
	}
	now, err := dir.Stat()
	if err == nil && !os.SameFile(now, s.info) {
		err = &fs.PathError{Op: "open", Path: s.real, Err: errExchanged}
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// parseMark returns the commit in the name of a mark.
func parseMark(name string) (object.ID, bool) {
	text, found := strings.CutPrefix(name, halfMark)
	id, err := object.ParseID(text)
	return id, found && err == nil
}

// checkComplete returns an error that matches ErrHalfDeleted if the index has a mark.
func checkComplete(dir string, idx *index.Index) error {
	for path := range idx.All() {
		above, name := tree.Split(path)
		if _, found := parseMark(name); found {
			return &fs.PathError{Op: "import", Path: filepath.Join(dir, above), Err: ErrHalfDeleted}
		}
	}
	return nil
}

// deletion is a folder that is being deleted.
type deletion struct {
	*importer
	*Source
	commit object.ID
	root   *os.Root
	dir    *os.File // the same as root
}

func (d *deletion) refuseDeletion(reason string, files ...string) error {
	return &NotDeletedError{Path: d.Path, Reason: reason, Files: files, half: d.isHalf()}
}

func (s *Source) isHalf() bool { return !s.half.IsZero() }

// deleteSource deletes the folder of a source whose commit is complete.
func (im *importer) deleteSource(ctx context.Context, s *Source, commit object.ID) error {
	d := deletion{importer: im, Source: s, commit: commit}
	info, err := os.Lstat(s.Path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return d.refuseDeletion("it is a symlink; name the folder itself")
	case tree.Below(im.repo.Dir(), strings.TrimSuffix(s.real, "/")): // s.real may be "/"
		return d.refuseDeletion("the repository is in it")
	}
	above, err := disk.OpenRoot(filepath.Dir(s.real))
	if err != nil {
		return err
	}
	defer above.Close()
	name := filepath.Base(s.real)
	if d.root, err = above.OpenRoot(name); err != nil {
		return err
	}
	defer d.root.Close()
	if d.dir, err = s.openSame(func() (*os.File, error) { return d.root.Open(".") }); err != nil {
		return err
	}
	defer d.dir.Close()

	if above.Remove(name) == nil { // it was empty
		return nil
	}
	idx, err := d.compareWithCommit(ctx)
	if err != nil {
		return err
	}
	if err := d.markFolder(); err != nil {
		return err
	}
	if err := d.removeAll(ctx, idx); err != nil {
		return err
	}
	return above.Remove(name)
}

// markFolder makes the mark in the folder, if it has none.
func (d *deletion) markFolder() error {
	if d.isHalf() {
		return nil
	}
	d.half = d.commit
	f, err := d.root.OpenFile(halfMark+d.commit.String(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		err = f.Close()
	}
	return errors.Join(err, d.dir.Sync())
}

// compareWithCommit reads the folder and its commit. It returns the index of the folder, with stat data, or
// a [*NotDeletedError].
func (d *deletion) compareWithCommit(ctx context.Context) (*index.Index, error) {
	c, err := object.ReadCommit(ctx, d.repo.Objects(), d.commit)
	if err != nil {
		return nil, err
	}
	w, err := worktree.OpenFile(d.dir, d.repo.WorktreeOptions(d.real))
	if err != nil {
		return nil, err
	}
	unrecorded := w.CountUnrecorded()
	tx := d.repo.Begin(volume.SessionOptions{DryRun: true})
	defer tx.Close()

	idx := index.New()
	files, err := stage.Prepare(ctx, d.repo, tx, idx, stage.AddOptions{Worktree: w, Times: true, Force: true, Progress: d.Progress})
	if err == nil {
		err = files.Apply()
	}
	if err != nil {
		return nil, err
	}
	extra := nestedIn(d.dir)
	for _, s := range slices.Concat(files.Result.Skipped, files.Result.NeverStored) {
		extra = append(extra, s.Path)
	}
	if len(extra) > 0 {
		return nil, d.refuseDeletion("it has files that the commit does not have", extra...)
	}
	for _, dir := range folders(idx) {
		mounted, err := worktree.IsMountPoint(w, dir)
		if err != nil {
			return nil, err
		}
		if mounted {
			return nil, d.refuseDeletion("a file system is mounted in it", cmp.Or(dir, "."))
		}
	}

	attrs, err := readAttrs(ctx, d.repo, d.commit) // the folder has none
	if err == nil {
		err = attrs.setInIndex(idx)
	}
	if err != nil {
		return nil, err
	}
	differ, err := d.differences(ctx, c.Tree, idx)
	if err != nil {
		return nil, err
	}
	if len(differ) > 0 {
		return nil, d.refuseDeletion("it differs from its commit", differ...)
	}
	objects := d.repo.Contents()
	err = graph.Walk(ctx, map[object.Key]bool{}, []object.Key{{Kind: object.KindTree, ID: c.Tree}}, func(key object.Key) ([]object.Key, error) {
		if _, err := objects.Get(ctx, key); err != nil {
			return nil, err
		}
		return graph.Links(ctx, objects, key)
	})
	if err != nil {
		return nil, fmt.Errorf("the commit of %q cannot be read: %w", d.Name, err)
	}
	if d.Unrecorded != nil && !d.isHalf() {
		d.Unrecorded(d.Name, unrecorded)
	}
	return idx, nil
}

// differences returns the paths at which an index differs from a tree. In a half-deleted folder,
// missing files, the mark, and the attributes of folders do not count.
func (d *deletion) differences(ctx context.Context, root object.ID, idx *index.Index) (differ []string, err error) {
	objects := object.NewOverlay(d.repo.Objects())
	now, err := idx.PreviewTree(ctx, objects)
	if err != nil {
		return nil, err
	}
	for change, err := range tree.Diff(ctx, objects, root, now.ID, tree.DiffOptions{Recursive: true, Recorded: !d.isHalf()}) {
		if err != nil {
			return nil, err
		}
		isDir := tree.IsDir(change.Old) && (change.New == nil || tree.IsDir(change.New))
		_, isMark := parseMark(change.Path)
		if d.isHalf() && (change.New == nil || isDir || isMark) {
			continue
		}
		differ = append(differ, change.Path)
	}
	return differ, nil
}

// nestedIn returns the folder of a repository in a folder, which a scan leaves out.
func nestedIn(dir *os.File) []string {
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), kist.Dir, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return []string{kist.Dir}
	}
	return nil
}

// folders returns the folders of an index and "", parents first.
func folders(idx *index.Index) []string {
	list := []string{""}
	for path := range idx.Dirs() {
		if path != "" {
			list = append(list, path)
		}
	}
	return list
}

// maxBatch is the number of files whose stat data is compared before the first is removed.
const maxBatch = 128

// removeAll removes the files of an index, deepest folders first, and then the mark.
// A file whose stat data or content has changed stays, and is a [*NotDeletedError].
func (d *deletion) removeAll(ctx context.Context, idx *index.Index) error {
	// Without metadata: removing one name of a file changes the metadata of the others.
	o := d.repo.Options()
	w, err := worktree.OpenFile(d.dir, worktree.Options{Chunker: d.repo.Chunker(), Objects: d.repo.Objects(), Now: o.Now, Jobs: o.Jobs, Git: true})
	if err != nil {
		return err
	}
	files := map[string][]worktree.Op{}
	for path, e := range idx.All() {
		dir, _ := tree.Split(path)
		if _, isMark := parseMark(path); !isMark {
			old := *e
			old.Meta = ""
			files[dir] = append(files[dir], worktree.Op{Path: path, Old: &old})
		}
	}
	for _, dir := range slices.Backward(folders(idx)) {
		itself := []worktree.Op{{Path: dir}} // goes if it is empty; until then, Apply makes it writable
		if dir == "" {
			itself = nil
		}
		for batch := range slices.Chunk(append(files[dir], itself...), maxBatch) {
			if err := d.removeBatch(ctx, w, slices.Concat(batch, itself)); err != nil {
				return err
			}
		}
	}

	left, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return err
	}
	var added []string
	for _, e := range left {
		if _, isMark := parseMark(e.Name()); !isMark {
			added = append(added, e.Name())
		}
	}
	if len(added) > 0 {
		return d.refuseDeletion("files were added to it meanwhile", added...)
	}
	return d.root.Remove(halfMark + d.commit.String())
}

// removeBatch removes files that have not changed.
func (d *deletion) removeBatch(ctx context.Context, w *worktree.Worktree, batch []worktree.Op) error {
	obstacles, err := w.Check(ctx, nil, batch)
	if err != nil {
		return err
	}
	if len(obstacles) == 0 {
		_, err = w.Apply(ctx, nil, batch, worktree.ApplyOptions{})
		return err
	}
	var changed []string
	for _, o := range obstacles {
		changed = append(changed, o.Path)
	}
	return d.refuseDeletion("files were changed meanwhile", changed...)
}
