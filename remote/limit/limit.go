// Package limit keeps uploads to and downloads from a remote below rates, for users
// who share their line with others. [New] wraps a [remote.Backend]; all
// calls together, however many at once, stay below the rates. It counts the
// bytes of blobs and records, not those of requests and lists.
//
// It goes around package retry's wrapper, not into it. Otherwise its delays would
// count as a stuck connection.
package limit

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/kist-vcs/kist/remote"
)

// Options are the rates, in bytes per second. 0: unlimited.
type Options struct {
	Upload, Download int64
}

const (
	minBurst = 4 << 10
	minPart  = 64 << 10
)

// New returns b with limited rates, or b itself if o has none. It splits a large
// Get into parts for half a second each, so that the rate holds at any moment and
// not only on average.
func New(b remote.Backend, o Options) remote.Backend {
	if o.Upload <= 0 && o.Download <= 0 {
		return b
	}
	return &backend{Backend: b, up: newMeter(o.Upload), down: newMeter(o.Download), part: max(int(o.Download/2), minPart)}
}

type backend struct {
	remote.Backend
	up, down *meter
	part     int // bytes of one Get

	// unsent is the number of times that the last Put read its body before it
	// sent it: S3 hashes it first.
	unsent atomic.Int64
}

// Unwrap returns the backend without limits.
func (b *backend) Unwrap() remote.Backend { return b.Backend }

func (b *backend) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if b.down == nil {
		return b.Backend.Get(ctx, name, p, off)
	}
	for n := 0; ; {
		part := p[n:min(len(p), n+b.part)]
		k, err := b.Backend.Get(ctx, name, part, off+int64(n))
		if err != nil {
			return 0, err
		}
		if err := b.down.waitFor(ctx, int64(k)); err != nil {
			return 0, err
		}
		n += k
		if k < len(part) || n == len(p) {
			return n, nil
		}
	}
}

func (b *backend) Create(ctx context.Context, name string, data []byte) error {
	if b.up != nil {
		if err := b.up.waitFor(ctx, int64(len(data))); err != nil {
			return err
		}
	}
	return b.Backend.Create(ctx, name, data)
}

func (b *backend) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if b.up == nil {
		return b.Backend.Put(ctx, name, body, size)
	}
	m := &meteredBody{ctx: ctx, body: body, meter: b.up, unsent: b.unsent.Load()}
	if err := b.Backend.Put(ctx, name, m, size); err != nil {
		return err
	}
	b.unsent.Store(max(m.passes-1, 0))
	_ = b.up.waitFor(ctx, size-m.paid) // the blob is stored, whatever becomes of ctx
	return nil
}

// meteredBody is a body that pays for its bytes when they are read for sending.
// The previous Put shows which pass over the body sends it. If that was wrong, Put
// pays the rest at the end, so every byte is paid for exactly once.
type meteredBody struct {
	ctx    context.Context // the Put's
	body   io.ReaderAt
	meter  *meter
	unsent int64 // passes before the one that counts
	passes int64 // begun
	paid   int64
}

func (m *meteredBody) ReadAt(p []byte, off int64) (n int, err error) {
	if off == 0 {
		m.passes++
	}
	if m.passes != m.unsent+1 {
		return m.body.ReadAt(p, off)
	}
	for n < len(p) && err == nil {
		piece := p[n:min(len(p), n+m.meter.Burst())]
		if err := m.meter.waitFor(m.ctx, int64(len(piece))); err != nil {
			return n, err
		}
		m.paid += int64(len(piece))
		var k int
		k, err = m.body.ReadAt(piece, off+int64(n))
		n += k
	}
	return n, err
}

// meter is a limit that calls share.
type meter struct{ *rate.Limiter }

// newMeter returns a meter, or nil for no limit. Its burst is an eighth of a
// second.
func newMeter(perSecond int64) *meter {
	if perSecond <= 0 {
		return nil
	}
	return &meter{rate.NewLimiter(rate.Limit(perSecond), max(int(perSecond/8), minBurst))}
}

// waitFor waits until n more bytes are within the limit.
func (m *meter) waitFor(ctx context.Context, n int64) error {
	for n > 0 {
		k := min(n, int64(m.Burst()))
		if err := m.WaitN(noDeadline{ctx}, int(k)); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// noDeadline hides a deadline from rate.Limiter, which would fail at once if the
// deadline is too near.
type noDeadline struct{ context.Context }

func (noDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }
