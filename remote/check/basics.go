package check

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
)

// blobSize is the size of the blob for reading ranges: more than two chunks of
// GridFS.
const blobSize = 600_001

func (p *probe) checkAbsent(ctx context.Context) error {
	// No later check uses these names.
	for _, name := range []string{p.prefix + "root/99999999999999999999", p.prefix + "packs/absent"} {
		if err := p.isAbsent(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (p *probe) putBlob(ctx context.Context) (err error) {
	p.blobData = p.data(blobSize)
	p.blob, err = p.putNew(ctx, p.blobData)
	return err
}

func (p *probe) createRecord(ctx context.Context) error {
	_, err := p.createNew(ctx, p.data(recordSize))
	if errors.Is(err, remote.ErrUnsupported) {
		return &finding{Failed, "the store refuses requests that create a name only if it is free: " + err.Error(), err}
	}
	return err
}

func (p *probe) readAfterWrite(ctx context.Context) error {
	if err := p.isThere(ctx, p.blob, p.blobData); err != nil {
		return err
	}

	for range 3 {
		data := p.data(recordSize)
		for _, store := range []func(context.Context, []byte) (string, error){p.createNew, p.putNew} {
			name, err := store(ctx, data)
			if err == nil {
				err = p.seenByAll(ctx, name, data)
			}
			if err != nil {
				return err
			}
		}
	}

	return nil
}

// seenByAll reads and describes a blob or record over several connections at once.
func (p *probe) seenByAll(ctx context.Context, name string, data []byte) error {
	group, ctx := errgroup.WithContext(ctx)
	for range atOnce {
		group.Go(func() error {
			info, err := p.b.Stat(ctx, name)
			switch {
			case errors.Is(err, remote.ErrNotFound):
				return failed("%q was stored, and is not found", name)
			case err != nil:
				return err
			case info.Name != name || info.Size != int64(len(data)):
				return failed("%q was stored with %d bytes, and is described as %q with %d", name, len(data), info.Name, info.Size)
			}
			return p.isThere(ctx, name, data)
		})
	}

	return group.Wait()
}

func (p *probe) checkRanges(ctx context.Context) error {
	const size, chunk = blobSize, 255 << 10 // GridFS's
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, r := range []byteRange{
		{0, 0, 0}, {0, 1, 1}, {1, 1, 1}, {0, size, size}, {0, 2 * size, size}, {100, chunk, chunk},
		{chunk - 1, 2, 2}, {chunk, chunk, chunk}, {chunk - 1, chunk + 2, chunk + 2},
		{size - 1, 1, 1}, {size - 1, 10, 1}, {size - 1000, 1000, 1000}, {size, 10, 0}, {size + 1000, 10, 0},
	} {
		group.Go(func() error { return p.checkRange(ctx, r) })
	}
	return group.Wait()
}

// byteRange is a range of n bytes, and the number of them that are in the blob.
type byteRange struct{ off, n, want int }

func (p *probe) checkRange(ctx context.Context, r byteRange) error {
	got := make([]byte, r.n)
	n, err := p.b.Get(ctx, p.blob, got, int64(r.off))
	switch {
	case errors.Is(err, remote.ErrNotFound):
		return failed("%q was stored, and is not found", p.blob)
	case err != nil:
		return err
	case n != r.want:
		return failed("%d bytes at %d of a blob of %d: %d bytes came back, not %d", r.n, r.off, blobSize, n, r.want)
	case n > 0 && !bytes.Equal(got[:n], p.blobData[r.off:r.off+n]):
		return failed("%d bytes at %d of a blob of %d: other bytes came back", r.n, r.off, blobSize)
	}
	return nil
}

func (p *probe) checkList(ctx context.Context) error {
	if _, err := p.createNew(ctx, p.data(recordSize)); err != nil {
		return err
	}

	var missing string
	complete, took, err := p.waitUntil(ctx, func(ctx context.Context) (_ bool, err error) {
		if missing, err = p.findUnlisted(ctx, p.prefix); missing != "" || err != nil {
			return false, err
		}
		missing, err = p.findUnlisted(ctx, p.prefix+"root/")
		return missing == "", err
	})

	switch {
	case err != nil:
		return err
	case !complete:
		return failed("%q is not listed, not even after %v", missing, took.Round(time.Second))
	case took > 0:
		return note(nil, "lists are complete only after %v", took.Round(time.Millisecond))
	}

	return nil
}

// findUnlisted lists a folder and returns a stored name that is not listed, or "".
// A delayed list is no error, but a wrong one is.
func (p *probe) findUnlisted(ctx context.Context, folder string) (string, error) {
	listed := map[string]int64{}
	last := ""
	for info, err := range p.b.List(ctx, folder) {
		switch {
		case err != nil:
			return "", err
		case !strings.HasPrefix(info.Name, folder):
			return "", failed("%q is listed among the names in %s", info.Name, folder)
		case info.Name <= last:
			return "", failed("%q is listed after %q, so names are not in order", info.Name, last)
		}
		last = info.Name
		listed[last] = info.Size
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for name, size := range p.stored {
		if !strings.HasPrefix(name, folder) {
			continue
		}
		switch got, ok := listed[name]; {
		case !ok:
			names = append(names, name)
		case got != size:
			return "", failed("%q has %d bytes, and is listed with %d", name, size, got)
		}
	}

	if len(names) == 0 {
		return "", nil
	}

	return slices.Min(names), nil
}

func (p *probe) checkDelete(ctx context.Context) error {
	record, err := p.createNew(ctx, p.data(recordSize))
	if err != nil {
		return err
	}

	var slowest time.Duration
	for _, name := range []string{record, p.blob} {
		err := p.b.Delete(ctx, name)
		if errors.Is(err, remote.ErrPermission) || errors.Is(err, remote.ErrUnsupported) {
			p.noDelete = true
			return note(err, "the credentials may not delete: enough to push and fetch, not to collect garbage (%v)", err)
		}
		if err != nil {
			return err
		}
		p.mu.Lock()
		delete(p.stored, name)
		p.mu.Unlock()
		gone, took, err := p.waitUntil(ctx, func(ctx context.Context) (bool, error) {
			_, err := p.b.Get(ctx, name, make([]byte, 1), 0)
			if errors.Is(err, remote.ErrNotFound) {
				return true, nil
			}
			return false, err
		})
		if err != nil {
			return err
		}
		if !gone {
			return failed("%q was deleted, and is still there after %v", name, took.Round(time.Second))
		}
		slowest = max(slowest, took)
		if err := p.b.Delete(ctx, name); err != nil {
			return &finding{Failed, "deleting a missing name is an error: " + err.Error(), err}
		}
	}

	if slowest > 0 {
		return note(nil, "deleted names are gone only after %v", slowest.Round(time.Millisecond))
	}

	return nil
}
