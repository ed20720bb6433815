package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Deleting an imported folder takes these steps. A kill may come after each of them, and within:
//
//  1. The folder is renamed to asidePrefix, the ID of its commit, and its name.
//  2. The renamed folder is compared with the commit, and all content of the commit is read.
//     If anything differs, the folder gets its name back.
//  3. The file halfMark is made in the folder. From then on, files may be missing.
//  4. Folder by folder, stat data is compared and files are removed. halfMark goes last.
//
// The next import finds the renamed folder beside the folders that it names, and continues.
//
// The folder and the one above it stay open meanwhile, and all steps work through them. So
// another user who exchanges a folder on the path cannot make kist delete another one.
const (
	asidePrefix = ".kist-delete-"
	halfMark    = ".kist-half-deleted"
)

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

// openSame opens the folder at a path, which must be the one that info describes.
func openSame(path string, info fs.FileInfo) (*os.File, error) {
	dir, err := disk.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	now, err := dir.Stat()
	if err == nil && !os.SameFile(now, info) {
		err = &fs.PathError{Op: "open", Path: path, Err: errExchanged}
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// isHalfDeleted reports whether a folder, with this path, may be incomplete.
func isHalfDeleted(path string) bool {
	_, err := os.Lstat(filepath.Join(path, halfMark))
	return err == nil || strings.HasPrefix(filepath.Base(path), asidePrefix)
}

// aside is a folder that is being deleted.
type aside struct {
	path   string // now
	name   string // its former base name
	commit object.ID

	above *os.Root // the folder above; like the others, only open within deleteAside
	root  *os.Root
	dir   *os.File // the same as root
}

// open opens a folder by the last name of path in above. Info describes the folder, or is nil.
func (a *aside) open(info fs.FileInfo) (err error) {
	name := filepath.Base(a.path)
	if info == nil {
		if info, err = a.above.Lstat(name); err != nil {
			return err
		}
	}
	if a.root, err = a.above.OpenRoot(name); err != nil {
		return err
	}
	a.dir, err = a.root.Open(".")
	if err == nil {
		var now fs.FileInfo
		if now, err = a.dir.Stat(); err == nil && !os.SameFile(now, info) {
			err = &fs.PathError{Op: "open", Path: a.path, Err: errExchanged}
		}
	}
	if err != nil {
		a.close()
	}
	return err
}

func (a *aside) close() {
	if a.dir != nil {
		a.dir.Close()
	}
	a.root.Close()
}

// rename gives the folder another name in the folder above, and a its path.
func (a *aside) rename(name string) error {
	if err := a.above.Rename(filepath.Base(a.path), name); err != nil {
		return err
	}
	a.path = filepath.Join(filepath.Dir(a.path), name)
	return syncRoot(a.above)
}

// syncRoot writes the names in a folder to disk.
func syncRoot(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Aside returns the folders in dir that interrupted imports were deleting.
func Aside(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	var found []string
	for _, d := range list {
		if _, ok := parseAside(filepath.Join(dir, d.Name())); ok && d.IsDir() {
			found = append(found, filepath.Join(dir, d.Name()))
		}
	}
	return found, err
}

func parseAside(path string) (aside, bool) {
	rest, found := strings.CutPrefix(filepath.Base(path), asidePrefix)
	id, name, cut := strings.Cut(rest, "-")
	commit, err := object.ParseID(id)
	return aside{path: path, name: name, commit: commit}, found && cut && err == nil && name != ""
}

// finishAsides continues to delete the folders in im.Asides whose commits are on the branch.
func (im *importer) finishAsides(ctx context.Context) (errs []error) {
	if !im.DeleteSource || im.DryRun {
		return nil
	}
	done := slices.Collect(maps.Values(im.done))
	for _, path := range im.Asides {
		if a, ok := parseAside(path); ok && slices.Contains(done, a.commit) {
			errs = append(errs, im.continueAside(ctx, a))
		}
	}
	return errs
}

// deleteSource deletes the folder of a source whose commit is complete.
func (im *importer) deleteSource(ctx context.Context, s *Source, commit object.ID) error {
	refuse := func(reason string) error { return &NotDeletedError{Path: s.Path, Reason: reason} }
	info, err := os.Lstat(s.Path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return refuse("it is a symlink; name the folder itself")
	case tree.Below(im.repo.Dir(), strings.TrimSuffix(s.real, "/")): // s.real may be "/"
		return refuse("the repository is in it")
	}
	a := aside{path: s.real, name: filepath.Base(s.real), commit: commit}
	if a.above, err = disk.OpenRoot(filepath.Dir(s.real)); err != nil {
		return err
	}
	defer a.above.Close()
	if err := a.open(s.info); err != nil {
		return err
	}
	defer a.close()

	mounted, err := im.isMounted(&a)
	if err != nil {
		return err
	}
	if mounted {
		return refuse("a file system is mounted there")
	}
	name := asidePrefix + commit.String() + "-" + a.name
	if _, err := a.above.Lstat(name); err == nil {
		return refuse(fmt.Sprintf("%q is in the way", filepath.Join(filepath.Dir(s.real), name)))
	}
	if err := a.rename(name); err != nil {
		return err
	}
	return im.deleteAside(ctx, &a)
}

// isMounted reports whether a file system is mounted at the folder itself.
func (im *importer) isMounted(a *aside) (bool, error) {
	w, err := worktree.OpenFile(a.dir, im.repo.WorktreeOptions(a.dir.Name()))
	if err != nil {
		return false, err
	}
	return worktree.IsMountPoint(w, "")
}

// continueAside continues to delete a folder that an interrupted import renamed.
func (im *importer) continueAside(ctx context.Context, a aside) (err error) {
	if a.above, err = disk.OpenRoot(filepath.Dir(a.path)); err != nil {
		return err
	}
	defer a.above.Close()
	if err := a.open(nil); err != nil {
		return err
	}
	defer a.close()
	return im.deleteAside(ctx, &a)
}

// deleteAside continues to delete a folder. If the folder differs from the commit, it gets its
// name back, unless files may be missing already.
func (im *importer) deleteAside(ctx context.Context, a *aside) error {
	lock, err := disk.Lock(ctx, filepath.Join(im.repo.Dir(), "delete-source.lock"), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()

	if a.above.Remove(filepath.Base(a.path)) == nil { // empty: only this step was left
		return nil
	}
	_, err = a.root.Lstat(halfMark)
	half := err == nil
	idx, err := im.compare(ctx, a, half)
	if err == nil && !half {
		err = a.mark()
	}
	if err == nil {
		return im.removeAll(ctx, idx, a)
	}
	var differs *NotDeletedError
	if errors.As(err, &differs) {
		differs.half = half
	}
	if half {
		return err
	}
	if _, lerr := a.above.Lstat(a.name); lerr == nil {
		return fmt.Errorf("%w (it is now %q)", err, a.path)
	}
	_ = a.root.Remove(halfMark)
	rerr := a.rename(a.name)
	if differs != nil && rerr == nil {
		differs.Path = a.path
	}
	return errors.Join(err, rerr)
}

// mark makes halfMark in the folder.
func (a *aside) mark() error {
	f, err := a.root.OpenFile(halfMark, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		err = f.Close()
	}
	return errors.Join(err, a.dir.Sync())
}

// compare reads a folder and its commit. It returns the index of the folder, with stat data, or
// a [*NotDeletedError]. With half, files may be missing.
func (im *importer) compare(ctx context.Context, a *aside, half bool) (*index.Index, error) {
	refuse := func(reason string, files ...string) error {
		return &NotDeletedError{Path: a.path, Reason: reason, Files: files}
	}
	c, err := object.ReadCommit(ctx, im.repo.Objects(), a.commit)
	if err != nil {
		return nil, err
	}
	w, err := worktree.OpenFile(a.dir, im.repo.WorktreeOptions(a.dir.Name()))
	if err != nil {
		return nil, err
	}
	unrecorded := w.CountUnrecorded()
	tx := im.repo.Begin(volume.SessionOptions{DryRun: true})
	defer tx.Close()

	idx := index.New()
	files, err := stage.Prepare(ctx, im.repo, tx, idx, stage.AddOptions{Worktree: w, Times: true, Force: true, Progress: im.Progress})
	if err == nil {
		err = files.Apply()
	}
	if err != nil {
		return nil, err
	}
	extra := nestedIn(a.dir)
	for _, s := range slices.Concat(files.Result.Skipped, files.Result.Special) {
		extra = append(extra, s.Path)
	}
	if len(extra) > 0 {
		return nil, refuse("it has files that the commit does not have", extra...)
	}
	if mounted, err := mountPoints(w, idx); err != nil || len(mounted) > 0 {
		return nil, cmp.Or(err, refuse("file systems are mounted in it", mounted...))
	}

	attrs, err := readAttrs(ctx, im.repo, a.commit) // the folder has none
	if err == nil {
		err = attrs.put(idx)
	}
	if err != nil {
		return nil, err
	}
	differ, err := im.differences(ctx, c.Tree, idx, half)
	if err != nil {
		return nil, err
	}
	if len(differ) > 0 {
		return nil, refuse("it differs from its commit", differ...)
	}
	if err := im.readAll(ctx, c.Tree); err != nil {
		return nil, fmt.Errorf("the commit of %q cannot be read: %w", a.name, err)
	}
	if im.Unrecorded != nil && !half {
		im.Unrecorded(a.name, unrecorded)
	}
	return idx, nil
}

// differences returns the paths at which an index differs from a tree. With half, missing files
// and the attributes of folders do not count.
func (im *importer) differences(ctx context.Context, root object.ID, idx *index.Index, half bool) (differ []string, err error) {
	objects := object.NewOverlay(im.repo.Objects())
	now, err := idx.PreviewTree(ctx, objects)
	if err != nil {
		return nil, err
	}
	for change, err := range tree.Diff(ctx, objects, root, now.ID, tree.DiffOptions{Recursive: true, Recorded: !half}) {
		if err != nil {
			return nil, err
		}
		isDir := tree.IsDir(change.Old) && (change.New == nil || tree.IsDir(change.New))
		if half && (change.New == nil || isDir || change.Path == halfMark) {
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

// readAll reads all contents of a tree. Reading checks each chunk against its hash.
func (im *importer) readAll(ctx context.Context, root object.ID) error {
	seen := map[object.Key]bool{}
	objects := im.repo.Contents()
	return tree.Walk(ctx, objects, root, func(path string, e object.Entry) error {
		if e.Type != object.TypeFile || seen[e.Content] {
			return nil
		}
		seen[e.Content] = !e.Content.IsZero()
		if _, err := io.Copy(io.Discard, object.NewContentReader(ctx, objects, e)); err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
		return nil
	})
}

// mountPoints returns the folders of an index where a file system is mounted.
func mountPoints(w *worktree.Worktree, idx *index.Index) (mounted []string, err error) {
	for _, dir := range folders(idx) {
		is, err := worktree.IsMountPoint(w, dir)
		if err != nil {
			return nil, err
		}
		if is && dir != "" {
			mounted = append(mounted, dir)
		}
	}
	return mounted, nil
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

// removeAll removes the files of an index, deepest folders first, and then the folder itself.
// A file whose stat data or content has changed stays, and is a [*NotDeletedError].
func (im *importer) removeAll(ctx context.Context, idx *index.Index, a *aside) error {
	// Without metadata: removing one name of a file changes the metadata of the others.
	o := im.repo.Options()
	w, err := worktree.OpenFile(a.dir, worktree.Options{Chunker: im.repo.Chunker(), Objects: im.repo.Objects(), Now: o.Now, Jobs: o.Jobs, Git: true})
	if err != nil {
		return err
	}
	files := map[string][]worktree.Op{}
	for path, e := range idx.All() {
		if dir, _ := tree.Split(path); path != halfMark {
			old := *e
			old.Meta = ""
			files[dir] = append(files[dir], worktree.Op{Path: path, Old: &old})
		}
	}
	for _, dir := range slices.Backward(folders(idx)) {
		mounted, err := worktree.IsMountPoint(w, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if mounted {
			return &NotDeletedError{Path: a.path, Reason: "a file system is mounted in it", Files: []string{dir}, half: true}
		}
		for rest := files[dir]; ; {
			n := min(len(rest), maxBatch)
			if err := removeBatch(ctx, w, slices.Clone(rest[:n]), dir, a); err != nil {
				return err
			}
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
	}
	if err := a.root.Remove(halfMark); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = a.above.Remove(filepath.Base(a.path))
	if errors.Is(err, fs.ErrExist) { // not empty
		left, rerr := fs.ReadDir(a.root.FS(), ".")
		if rerr != nil {
			return rerr
		}
		e := &NotDeletedError{Path: a.path, Reason: "files were added to it meanwhile", half: true}
		for _, d := range left {
			e.Files = append(e.Files, d.Name())
		}
		return errors.Join(e, a.mark())
	}
	return err
}

// removeBatch removes files of one folder, and the folder if it is then empty.
func removeBatch(ctx context.Context, w *worktree.Worktree, batch []worktree.Op, dir string, a *aside) error {
	if dir != "" { // Apply also makes it writable
		batch = append(batch, worktree.Op{Path: dir})
	}
	obstacles, err := w.Check(ctx, nil, batch)
	if err == nil && len(obstacles) == 0 {
		_, err = w.Apply(ctx, nil, batch, worktree.ApplyOptions{})
		return err
	}
	e := &NotDeletedError{Path: a.path, Reason: "files were changed meanwhile", half: true}
	for _, o := range obstacles {
		e.Files = append(e.Files, o.Path)
	}
	return cmp.Or(err, error(e))
}
