package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
)

// uploader sends objects in packs.
type uploader struct {
	r     *Remote
	local Local
	own   *ownPacks
	start uint64 // the head now (S0 of what is sent)
	meter *meter

	mu      sync.Mutex // guards the following
	objects int64      // sent
	bytes   int64
	packs   int
	sent    []*sentPack
}

// send sends what a plan says, jobs packs at once: while some are filled,
// others are under way. It needs the memory of so many packs.
func (u *uploader) send(ctx context.Context, p *plan, jobs int) ([]*sentPack, error) {
	batches := p.batches(jobs)
	largest := 0
	for _, b := range batches {
		size := remote.HeaderSize + 4<<10
		for _, it := range b {
			size += it.room()
		}
		largest = max(largest, size)
	}
	todo := make(chan []item, len(batches))
	for _, b := range batches {
		todo <- b
	}
	close(todo)
	group, ctx := errgroup.WithContext(ctx)
	for range min(jobs, len(batches)) {
		group.Go(func() error {
			w := pack.NewWriter(make([]byte, 0, largest))
			var value []byte
			for batch := range todo {
				var err error
				if value, err = u.sendBatch(ctx, w, batch, value); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return u.sent, err
}

// sendBatch sends objects, in one pack unless they are too many. It returns
// value, a buffer.
func (u *uploader) sendBatch(ctx context.Context, w *pack.Writer, batch []item, value []byte) ([]byte, error) {
	w.Reset()
	for _, it := range batch {
		var raw int
		var err error
		if value, raw, err = u.local.GetStored(ctx, it.key, value); err != nil {
			return nil, err
		}
		if w.Full(len(value)) {
			if err := u.put(ctx, w); err != nil {
				return nil, err
			}
			w.Reset()
		}
		if err := w.Add(it.key, value, raw); err != nil {
			return nil, err
		}
	}
	return value, u.put(ctx, w)
}

// put sends a pack, and notes that it did.
func (u *uploader) put(ctx context.Context, w *pack.Writer) error {
	var sent *sentPack
	_, err := u.r.putBlob(ctx, pack.Name.Path, func(name pack.Name) (io.ReaderAt, int64, error) {
		body, entries, err := w.Finish(name)
		if err != nil {
			return nil, 0, err
		}
		sent = &sentPack{info: entries[0].Pack, start: u.start, entries: entries, checked: true}
		return bytes.NewReader(body), int64(len(body)), nil
	})
	if err != nil {
		return err
	}
	objects, stored := int64(len(sent.entries)), int64(0)
	for _, e := range sent.entries {
		stored += int64(e.Stored)
	}
	if err := u.own.add(ctx, sent); err != nil {
		return err
	}
	u.mu.Lock()
	u.objects += objects
	u.bytes += int64(sent.info.Size)
	u.packs++
	u.sent = append(u.sent, sent)
	u.mu.Unlock()
	u.meter.update(func(at *Progress) {
		at.Objects += objects
		at.Bytes += stored
	})
	return nil
}

// putBlob puts a blob under a new name for every attempt (FRESH_NAMES), and
// returns the name of the one that succeeded. Body is called for each.
func (r *Remote) putBlob(ctx context.Context, path func(pack.Name) string, body func(pack.Name) (io.ReaderAt, int64, error)) (pack.Name, error) {
	var name pack.Name
	err := retry.Do(ctx, r.o.Retry, "put", func(ctx context.Context) (err error) {
		if name, err = pack.NewName(r.o.Rand); err != nil {
			return err
		}
		content, size, err := body(name)
		if err != nil {
			return err
		}
		err = r.b.Put(ctx, path(name), content, size)
		if errors.Is(err, remote.ErrExists) {
			// Nobody else has this name: the store was asked twice. What came
			// of that is unclear.
			err = &remote.Error{Op: "put", Name: path(name), Kind: remote.ErrTemporary, Err: err}
		}
		return err
	})
	return name, err
}
