package history

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// Ahead yields the values of seq, which a goroutine reads ahead in batches. A waiting caller
// gets each value at once. While the caller is busy, the goroutine collects the next batch.
func Ahead[T any](seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	type value struct {
		v   T
		err error
	}
	return func(yield func(T, error) bool) {
		batches, stop := make(chan []value), make(chan struct{})
		var worker sync.WaitGroup
		defer worker.Wait()
		defer close(stop)
		worker.Go(func() {
			defer close(batches)
			var batch []value
			// send passes the batch on, and reports whether to go on. Without mayWait, it
			// keeps the batch if the caller is busy.
			send := func(mayWait bool) bool {
				select {
				case batches <- batch:
					batch = nil
					return true
				case <-stop:
					return false
				default:
				}
				if !mayWait {
					return true
				}
				select {
				case batches <- batch:
					batch = nil
					return true
				case <-stop:
					return false
				}
			}
			for v, err := range seq {
				batch = append(batch, value{v, err})
				if !send(len(batch) == maxBatch) {
					return
				}
			}
			send(true)
		})
		for batch := range batches {
			for _, x := range batch {
				if !yield(x.v, x.err) {
					return
				}
			}
		}
	}
}

// maxBatch is the largest number of values in a batch of Ahead.
const maxBatch = 256

// lineReader reads the commits of a line of history ahead of a walk: a commit, its first parent, and
// so on.
type lineReader struct {
	from object.ID // the commit that take returns next; zero if there is none
	take func() ([]byte, error, bool)
	stop func()
	cold int // the number of commits in a row that were not next in the line
}

// minCold is the number of commits to read before a line is read ahead. A short log needs no
// more. Only tests change it.
var minCold = 128

// readCommit returns a commit, from the line if it comes next there.
func (w *walker) readCommit(ctx context.Context, id object.ID) (*object.Commit, error) {
	l := &w.line
	if id != l.from {
		if l.cold++; l.cold < minCold {
			return object.ReadCommit(ctx, w.r, id)
		}
		l.stopAhead()
		l.take, l.stop = iter.Pull2(Ahead(encodings(ctx, w.r, id)))
	}
	l.cold, l.from = 0, object.ID{}
	data, err, ok := l.take()
	if ok && err == nil {
		var c *object.Commit
		if c, err = object.DecodeCommit(data); err == nil {
			if len(c.Parents) > 0 {
				l.from = c.Parents[0]
			}
			return c, nil
		}
	}
	return object.ReadCommit(ctx, w.r, id) // returns the error
}

// stopAhead stops the reading ahead.
func (l *lineReader) stopAhead() {
	if l.stop != nil {
		l.stop()
	}
}

// encodings yields the encodings of a commit, of its first parent, and so on, up to one
// without a parent or with an error.
func encodings(ctx context.Context, r object.Reader, id object.ID) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			data, err := r.Get(ctx, object.Key{Kind: object.KindCommit, ID: id})
			var links []object.Key
			if err == nil {
				links, err = object.Links(object.KindCommit, data)
			}
			if !yield(data, err) || err != nil {
				return
			}
			parent := slices.IndexFunc(links, func(l object.Key) bool { return l.Kind == object.KindCommit })
			if parent < 0 {
				return
			}
			id = links[parent].ID
		}
	}
}
