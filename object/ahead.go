package object

import (
	"context"
	"errors"
	"iter"
)

// Payer is a [Prefetcher] whose user decides how many bytes are fetched.
type Payer interface {
	Prefetcher

	// Agree returns nil if those of chunks that are far away may be fetched, and else a [*BudgetError]. Chunks may repeat. It yields
	// an error last, which Agree returns. Agree does not iterate over chunks if nobody has to agree.
	Agree(ctx context.Context, chunks iter.Seq2[ChunkRef, error]) error
}

// Ahead yields the values of seq. Before a value, it brings the content of its files near, together with that of the next values. Contents returns these
// files: the entries whose content the caller reads.
//
// If somebody has to agree to a fetch, Ahead counts before the first value, in an iteration of its own. If nobody agrees, it yields the
// [*BudgetError] and ends. If nothing is far away from r, Ahead is seq.
func Ahead[T any](ctx context.Context, r Reader, seq iter.Seq2[T, error], contents func(T) ([]Entry, error)) iter.Seq2[T, error] {
	if !HasFar(r) {
		return seq
	}
	a := &aheadReader[T]{r: r, seq: seq, contents: contents}
	return func(yield func(T, error) bool) {
		if p, ok := below[Payer](r); ok {
			if err := p.Agree(ctx, a.eachChunk(ctx)); err != nil {
				var none T
				yield(none, err)
				return
			}
		}
		for w, err := range a.eachWindow(ctx) {
			w.bringContent(ctx, r)
			for _, value := range w.values {
				if !yield(value, nil) {
					return
				}
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
		}
	}
}

// NotePlaces returns err. If it is a [*BudgetError] without places, it gets the result of find.
func NotePlaces(err error, find func() []Place) error {
	var need *BudgetError
	if errors.As(err, &need) && need.Places == nil {
		need.Places = find()
	}
	return err
}

// aheadReader reads content in windows of values.
type aheadReader[T any] struct {
	r        Reader
	seq      iter.Seq2[T, error]
	contents func(T) ([]Entry, error)
}

// A window has at most so many files. The first one is small: the caller may need no more.
const (
	firstWindow = 64
	mostWindow  = 1024
)

// aheadWindow is a run of values with their files.
type aheadWindow[T any] struct {
	values []T
	files  []Entry
}

// eachWindow yields windows with up to [MaxPrefetch] bytes of content. An error comes with the last one.
func (a *aheadReader[T]) eachWindow(ctx context.Context) iter.Seq2[aheadWindow[T], error] {
	return func(yield func(aheadWindow[T], error) bool) {
		var w aheadWindow[T]
		size, most := uint64(0), firstWindow
		for value, err := range a.seq {
			var files []Entry
			if err == nil {
				files, err = a.contents(value)
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(w, err)
				return
			}
			w.values, w.files = append(w.values, value), append(w.files, files...)
			for i := range files {
				size += files[i].Size
			}
			if size < MaxPrefetch && len(w.files) < most && len(w.values) < mostWindow {
				continue
			}
			if !yield(w, nil) {
				return
			}
			w, size, most = aheadWindow[T]{}, 0, min(2*most, mostWindow)
		}
		yield(w, nil)
	}
}

// bringContent brings the content of the window near.
func (w *aheadWindow[T]) bringContent(ctx context.Context, r Reader) {
	w.bringLists(ctx, r)
	batch := NewFileBatch(r)
	for i := range w.files {
		batch.Add(ctx, w.files[i])
	}
	batch.Prefetch(ctx)
}

// bringLists brings the lists of chunks near.
func (w *aheadWindow[T]) bringLists(ctx context.Context, r Reader) {
	var lists []Key
	for i := range w.files {
		if e := &w.files[i]; e.Content.Kind == KindManifest {
			lists = append(lists, e.Content)
		}
	}
	BringLists(ctx, r, lists)
}

// eachChunk yields the chunks of all files.
func (a *aheadReader[T]) eachChunk(ctx context.Context) iter.Seq2[ChunkRef, error] {
	return func(yield func(ChunkRef, error) bool) {
		for w, err := range a.eachWindow(ctx) {
			w.bringLists(ctx, a.r)
			for i := range w.files {
				for c, cerr := range Chunks(ctx, a.r, w.files[i].Content, w.files[i].Size, 0) {
					if cerr != nil {
						break // a read of the file finds the error
					}
					if !yield(c.ChunkRef, nil) {
						return
					}
				}
			}
			if err != nil {
				yield(ChunkRef{}, err)
				return
			}
		}
	}
}
