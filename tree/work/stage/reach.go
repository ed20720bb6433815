package stage

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/worktree"
)

// reachBatch is the number of chunks that are looked for at once.
const reachBatch = 100_000

// reachContent lists the content that operations write and that is away, and asks the remotes for their heads. So a command without a
// network changes no file. The error is then an [*object.AwayError] with the number of files. Content that no remote has does not end
// the command: the files are reported one by one. Leaving has chunks that are lent, and will not be when operations write them.
func reachContent(ctx context.Context, r *kist.Repository, ops []worktree.Op, leaving map[object.Key]bool) error {
	objects := r.Contents()
	if !object.HasFar(objects) {
		return nil
	}
	var lists []object.Key
	for _, op := range ops {
		if op.New != nil && op.New.Content.Kind == object.KindManifest {
			lists = append(lists, op.New.Content)
		}
	}
	object.BringLists(ctx, objects, lists)

	search := contentSearch{r: r, leaving: leaving}
	for _, op := range ops {
		if op.New == nil || op.New.Type != object.TypeFile {
			continue
		}
		search.addFile(ctx, op.New)
		if err := search.ask(ctx, reachBatch); err != nil {
			return err
		}
	}
	if err := search.ask(ctx, 1); err != nil {
		return err
	}
	if search.failed == nil {
		return ctx.Err()
	}
	return &object.AwayError{Key: search.failed.Key, Files: search.files, Remote: search.failed.Remote, Err: search.failed.Err}
}

// contentSearch looks for the content of files on the remotes.
type contentSearch struct {
	r       *kist.Repository
	leaving map[object.Key]bool // chunks that are away, whatever file has them now
	files   int                 // with content that is away
	far     []object.Key        // chunks to look for
	failed  *object.AwayError   // a remote does not answer: only count
}

// addFile adds the chunks of a file that are away. An error other than that of a remote is left to the read of the file.
func (s *contentSearch) addFile(ctx context.Context, e *object.Entry) {
	var chunks, far []object.Key
	away := false
	for c, err := range object.Chunks(ctx, s.r.Contents(), e.Content, e.Size, 0) {
		if err != nil {
			if away = object.IsAway(err); away && s.failed == nil {
				errors.As(err, &s.failed)
			}
			break
		}
		if key := (object.Key{Kind: object.KindChunk, ID: c.ID}); s.leaving[key] {
			far = append(far, key)
		} else {
			chunks = append(chunks, key)
		}
	}
	far = append(far, volume.Far(s.r.Objects(), chunks)...)
	if away || len(far) > 0 {
		s.files++
	}
	if s.failed == nil {
		s.far = append(s.far, far...)
	}
}

// ask asks the remotes for the chunks so far, if there are at least least.
func (s *contentSearch) ask(ctx context.Context, least int) error {
	if s.failed != nil || len(s.far) < least {
		return nil
	}
	err := volume.Reach(ctx, s.r.Objects(), s.far)
	s.far = s.far[:0]
	if errors.As(err, &s.failed) || errors.Is(err, object.ErrNotFound) {
		return nil
	}
	return err
}
