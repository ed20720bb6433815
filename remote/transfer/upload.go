package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// uploader sends objects in packs.
type uploader struct {
	r     *Remote
	local Local
	own   *ownPacks
	start uint64 // the head when the sending began: S0 of the sent packs
	meter *Meter

	mu      sync.Mutex // guards the following
	looked  time.Time  // at the head, for its epoch
	newer   *rootlog.State
	objects int64 // sent
	bytes   int64
	packs   int
	sent    []*sentPack
}

// sendBatch sends objects, in one pack unless they are too many.
func (u *uploader) sendBatch(ctx context.Context, w *Packer, batch []item) error {
	for _, it := range batch {
		var raw int
		var err error
		if w.Buf, raw, err = u.local.GetStored(ctx, it.key, w.Buf); err != nil {
			return err
		}
		if w.Full(len(w.Buf)) {
			if err := u.putPack(ctx, w.Writer); err != nil {
				return err
			}
			w.Reset()
		}
		if err := w.Add(it.key, w.Buf, raw); err != nil {
			return err
		}
	}
	return u.putPack(ctx, w.Writer)
}

// maxUnseen is the time for which a push to an encrypted remote sends packs without a look at the head. A recipient that is removed
// meanwhile can read them.
const maxUnseen = 10 * time.Second

// errEpochBegun means that an epoch has begun since the plan: all sent packs are useless (EPOCH_OF_HEAD). The head
// is then in newer.
var errEpochBegun = errors.New("the keys of the remote have changed")

// checkEpoch looks from time to time whether an epoch has begun since the plan.
func (u *uploader) checkEpoch(ctx context.Context) error {
	if !u.r.IsEncrypted() {
		return nil
	}
	now := u.r.o.Now()
	u.mu.Lock()
	due := now.Sub(u.looked) >= maxUnseen
	if due {
		u.looked = now
	}
	u.mu.Unlock()
	if !due {
		return nil
	}

	head, err := inspectHead(ctx, u.r)
	if err != nil || u.start >= head.Keys.Epoch.Since {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.newer = head
	return errEpochBegun
}

// putPack sends a pack, and notes that it did.
func (u *uploader) putPack(ctx context.Context, w *pack.Writer) error {
	if err := u.checkEpoch(ctx); err != nil {
		return err
	}
	entries, err := u.r.PutPack(ctx, w)
	if err != nil {
		return err
	}
	return u.noteSent(ctx, entries)
}

// noteSent notes that a pack was sent.
func (u *uploader) noteSent(ctx context.Context, entries []pack.Entry) error {
	sent := &sentPack{info: entries[0].Pack, start: u.start, entries: entries, checked: true}
	objects, stored := int64(len(sent.entries)), int64(0)
	for _, e := range sent.entries {
		stored += int64(e.Stored)
	}
	if err := u.own.noteSent(ctx, sent); err != nil {
		return err
	}

	u.mu.Lock()
	u.objects += objects
	u.bytes += remote.StoredSize(u.r.b, sent.info.Name.Path(), int64(sent.info.Size))
	u.packs++
	u.sent = append(u.sent, sent)
	u.mu.Unlock()
	u.meter.Update(func(at *Progress) {
		at.Objects += objects
		at.Bytes += stored
	})
	return nil
}

// Packer fills packs, one after the other.
type Packer struct {
	*pack.Writer
	Buf  []byte
	room int // bytes of memory of the Writer
}

// beginPack begins a pack, with room for size bytes.
func (w *Packer) beginPack(size int) {
	if size > w.room {
		const step = 4 << 20 // so that packers of about equal packs are made once
		w.room = (size + step - 1) / step * step
		w.Writer = pack.NewWriter(make([]byte, 0, w.room))
	}
	w.Reset()
}

// WritePacks calls produce, which passes batches of items to send. It calls write for each batch, as many as jobs at once, with a
// packer that has room for it. Room returns the most bytes that an item takes. If write fails, send returns an error, and
// WritePacks returns that of write.
func WritePacks[T any](ctx context.Context, jobs int, produce func(ctx context.Context, send func(batch []T) error) error, room func(T) int, write func(context.Context, *Packer, []T) error) error {
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	packers := make(chan *Packer, jobs)
	for range jobs {
		packers <- &Packer{}
	}
	err := produce(gctx, func(batch []T) error {
		group.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			w := <-packers
			defer func() { packers <- w }()
			size := packFrame
			for _, it := range batch {
				size += room(it)
			}
			w.beginPack(size)
			return write(gctx, w, batch)
		})
		return gctx.Err()
	})
	return cmp.Or(group.Wait(), err)
}

// SendEach returns a function for [WritePacks] that sends batches.
func SendEach[T any](batches [][]T) func(context.Context, func([]T) error) error {
	return func(_ context.Context, send func([]T) error) error {
		for _, batch := range batches {
			if err := send(batch); err != nil {
				return err
			}
		}
		return nil
	}
}

// packFrame is more than a pack takes beyond the room of its objects.
const packFrame = remote.HeaderSize + 4<<10

// PackSizes says where packs end. A pack is full from some bytes on, but never larger than its limit.
type PackSizes struct{ Full, Limit int } // bytes

// PackSizesFor returns the sizes of packs that are full from about so many bytes on. In an encrypted
// store, a pack ends before the object with which it would be larger than its size class. So full
// packs have equal sizes there, and show nothing of the sizes of objects.
func PackSizesFor(b remote.Backend, full int) PackSizes {
	if _, ok := remote.As[remote.Encrypter](b); !ok {
		return PackSizes{full, pack.MaxSize}
	}
	class := SmallPack
	for class < full && class < pack.TargetSize {
		class *= 2
	}
	return PackSizes{class, class}
}

// CutBatches cuts items into batches for packs.
func CutBatches[T any](items []T, sizes PackSizes, room func(T) int) (batches [][]T) {
	start, size := 0, 0
	for i, it := range items {
		if size >= sizes.Full || start < i && packFrame+size+room(it) > sizes.Limit {
			batches = append(batches, items[start:i])
			start, size = i, 0
		}
		size += room(it)
	}
	if start < len(items) {
		batches = append(batches, items[start:])
	}
	return batches
}

// PutPack sends a pack, and returns its entries.
func (r *Remote) PutPack(ctx context.Context, w *pack.Writer) (entries []pack.Entry, err error) {
	if !w.HasNodes() {
		ctx = remote.WithContent(ctx)
	}
	_, err = r.putBlob(ctx, pack.Name.Path, func(name pack.Name) (io.ReaderAt, int64, error) {
		body, list, err := w.Finish(name)
		entries = list
		return bytes.NewReader(body), int64(len(body)), err
	})
	return entries, err
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
			// No other client has this name: the store received the request twice.
			// The result is unclear.
			err = &remote.Error{Op: "put", Name: path(name), Kind: remote.ErrTemporary, Err: err}
		}
		return err
	})
	return name, err
}
