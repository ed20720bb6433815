// Package convert makes commits from folders, archives and git repositories, and writes
// commits to git.
package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Source is a folder or an archive that becomes a commit.
type Source struct {
	Path string // absolute, for messages
	Name string
	Host string // recorded in the commit; "": this host
	Time time.Time

	load  func(ctx context.Context, im *importer, s *Source) error
	real  string      // Path without symlinks
	info  fs.FileInfo // of a folder, which must stay the same one
	empty bool        // it is an empty folder
	half  object.ID   // the commit of a folder that an interrupted import was deleting
}

// Real returns the absolute path of the source, without symlinks.
func (s *Source) Real() string { return s.real }

// ImportOptions configure [Import].
type ImportOptions struct {
	Branch   string // gets the commits
	DryRun   bool   // only count
	Progress kist.Progress
	MaxSize  uint64 // of the content of an archive, in bytes; 0: 200 times the archive, and at least 1 GiB

	// DeleteSource deletes each folder once its commit is complete. It also continues in a
	// folder that an interrupted import of the same branch was deleting. An empty folder, which may
	// be the rest of one, is deleted without a commit.
	DeleteSource bool
	Unrecorded   func(name string, u *worktree.Unrecorded) // called before a folder is deleted; may be nil
}

// Imported is the result for one source.
type Imported struct {
	*Source
	ID      object.ID // zero in a dry run
	Already bool      // an earlier import made the commit
	Deleted bool      // with DeleteSource

	Files, Bytes int64 // of the commit
	Duplicates   int64 // files with content that the repository has, or that occurred before
	New          int64 // bytes that the repository did not have
	Skipped      []object.Skipped
	Special      []object.Skipped // never stored: see [stage.AddResult]
}

// importer is the state of one [Import].
type importer struct {
	ImportOptions
	repo   *kist.Repository
	tip    object.ID            // of the branch
	done   map[string]object.ID // commits of earlier imports, by key
	tx     *kist.Tx
	idx    *index.Index // the content of the latest source, and stat data
	attrs  attrs        // of the latest commit
	result *Imported

	contents map[object.Key]bool // in a dry run, the contents of the sources before
}

// Import makes a commit of each source, the oldest first, on top of a branch, and calls
// each with the results. A missing branch is created. A source that an earlier import
// committed is not committed again, so an interrupted import can be repeated.
//
// The error matches [commits.ErrCheckedOut] if HEAD is on the branch: the worktree would not
// match it. A folder that cannot be deleted is a [*NotDeletedError] in the end.
func Import(ctx context.Context, r *kist.Repository, sources []Source, o ImportOptions, each func(*Imported) error) error {
	im := &importer{ImportOptions: o, repo: r, idx: index.New(), contents: map[object.Key]bool{}}
	if err := im.findEarlierImports(ctx); err != nil {
		return err
	}

	sources = slices.Clone(sources)
	slices.SortStableFunc(sources, func(a, b Source) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Path, b.Path))
	})
	if o.DryRun {
		im.tx = r.Begin(volume.SessionOptions{DryRun: true})
		defer im.tx.Close()
	}
	var kept []error
	for i := range sources {
		result, err := im.importSource(ctx, &sources[i])
		if err == nil && o.DeleteSource && !o.DryRun {
			del := im.deleteSource(ctx, &sources[i], result.ID)
			result.Deleted = del == nil
			kept = append(kept, del)
		}
		if err == nil {
			err = cmp.Or(each(result), ctx.Err())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", sources[i].Name, err)
		}
	}
	return errors.Join(kept...)
}

// findEarlierImports reads the branch, and finds the commits of earlier imports at its tip.
func (im *importer) findEarlierImports(ctx context.Context) error {
	if err := refs.CheckShort(im.Branch); err != nil {
		return err
	}
	head, err := im.repo.Refs().Head()
	if err != nil {
		return err
	}
	if head.Branch == im.Branch {
		return fmt.Errorf("branch %q %w", im.Branch, commits.ErrCheckedOut)
	}
	im.tip, err = im.repo.Refs().Get(refs.Heads + im.Branch)
	if err != nil && !errors.Is(err, refs.ErrNotFound) {
		return err
	}

	if im.attrs, err = readAttrs(ctx, im.repo, im.tip); err != nil {
		return err
	}

	im.done = map[string]object.ID{}
	for id := im.tip; !id.IsZero(); {
		c, err := object.ReadCommit(ctx, im.repo.Objects(), id)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(c.Message, messagePrefix) {
			return nil
		}
		im.done[importKey(c.Message, c.Author.Time)] = id
		id = c.FirstParent()
	}
	return nil
}

// messagePrefix begins the messages of imported commits. The name of the source follows.
const messagePrefix = "import "

// commitMessage returns the message of the commit of a source.
func (s *Source) commitMessage() string {
	return messagePrefix + strings.ToValidUTF8(s.Name, "\uFFFD") + "\n"
}

// importKey names the commit of a source. A source with the same name and time counts as
// the same.
func importKey(message string, at object.Time) string {
	return fmt.Sprintf("%d.%d %s", at.Sec, at.Nsec, strings.TrimSpace(message))
}

// importSource imports a source.
func (im *importer) importSource(ctx context.Context, s *Source) (*Imported, error) {
	im.result = &Imported{Source: s}
	id, already := im.done[importKey(s.commitMessage(), object.TimeOf(s.Time))]
	if s.isHalf() {
		id, already = s.half, slices.Contains(slices.Collect(maps.Values(im.done)), s.half)
		if !im.DeleteSource || !already {
			return nil, &fs.PathError{Op: "import", Path: s.real, Err: ErrHalfDeleted}
		}
	}
	switch {
	case already:
		im.result.ID, im.result.Already = id, true
		c, err := object.ReadCommit(ctx, im.repo.Objects(), id)
		if err != nil {
			return nil, err
		}
		im.result.Files, im.result.Bytes = int64(c.Files), int64(c.Bytes)
	case s.empty && im.DeleteSource: // perhaps the rest of one that an interrupted import was deleting
	case im.DryRun:
		before := im.tx.Stats().NewBytes
		if err := s.load(ctx, im, s); err != nil {
			return nil, err
		}
		im.result.New = im.tx.Stats().NewBytes - before
	default:
		err := im.repo.Update(ctx, func(tx *kist.Tx) error {
			im.tx = tx
			return im.storeAndCommit(ctx, s)
		})
		if err != nil {
			return nil, err
		}
	}
	return im.result, nil
}

// storeAndCommit stores a source and makes the commit. After an error, the next attempt stores
// everything.
func (im *importer) storeAndCommit(ctx context.Context, s *Source) (err error) {
	defer func() {
		if err != nil {
			im.idx = index.New()
		}
	}()
	im.result = &Imported{Source: s}
	if err := s.load(ctx, im, s); err != nil {
		return err
	}

	if err := im.attrs.setInIndex(im.idx); err != nil {
		return err
	}

	info, err := im.idx.WriteTree(ctx, im.tx)
	if err != nil {
		return err
	}
	c := kist.NewCommit(im.repo, info, s.commitMessage(), im.tip)
	c.Host = cmp.Or(s.Host, c.Host)
	_, offset := s.Time.Zone()
	c.Committer.Time, c.Committer.Zone = object.TimeOf(s.Time), int16(offset/60)
	c.Author = c.Committer
	if len(im.result.Skipped) > 0 {
		if err := c.SetSkipped(ctx, im.tx, im.result.Skipped); err != nil {
			return err
		}
	}
	id, err := im.tx.PutCommit(ctx, c)
	if err != nil {
		return err
	}

	im.tx.Need(id) // the index has trees of the commit before, which this transaction did not store
	im.tx.Move(refs.Change{Name: refs.Heads + im.Branch, Old: im.tip, New: id, Reason: strings.TrimSpace(s.commitMessage())})
	if err := im.tx.Publish(ctx); err != nil {
		return err
	}
	im.tip, im.result.ID, im.result.New = id, id, im.tx.Stats().NewBytes
	return nil
}

// countFiles adds the files of the index to the result. A file counts as duplicate if the
// repository had its content before the session, or an earlier file has it.
func (im *importer) countFiles(ctx context.Context) error {
	var unknown []object.Key
	seen := map[object.Key]bool{}
	for _, e := range im.idx.All() {
		im.result.Files++
		im.result.Bytes += int64(e.Size)
		switch {
		case e.Content.IsZero():
		case im.contents[e.Content] || seen[e.Content]:
			im.result.Duplicates++
		default:
			seen[e.Content] = true
			unknown = append(unknown, e.Content)
		}
	}
	missing, err := im.repo.Objects().Missing(ctx, unknown)
	im.result.Duplicates += int64(len(unknown) - len(missing))
	if im.DryRun { // a commit stores them
		maps.Copy(im.contents, seen)
	}
	return err
}
