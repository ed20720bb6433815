package transfer

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// EarlyPacks sends new chunks while their commit is still being made. The next push by the
// same Remote uses their packs, as if an interrupted push had sent them. It is safe for
// concurrent use.
//
// An error ends the sending, and costs nothing else: the push sends the rest.
type EarlyPacks struct {
	snap *Snapshot // S
	u    *uploader

	free    chan *Packer // packers that are not in use
	uploads sync.WaitGroup

	mu      sync.Mutex // guards the following
	filling *Packer    // or nil
	ended   bool       // by an error, or by End
}

// aheadSize is the size from which on a pack is sent ahead. It is less than
// [pack.TargetSize], because the session also needs memory.
const aheadSize = 16 << 20

// aheadPatience is the time that a pack may lose by waits and failed attempts before
// nothing more is sent ahead. The commit waits as long, at most.
const aheadPatience = time.Minute

// SendAhead begins to send chunks. It needs memory for jobs packs. After
// [Ahead.End], the caller calls [Remote.Push] or [Remote.Close].
func SendAhead(ctx context.Context, r *Remote, jobs int) (*EarlyPacks, error) {
	if err := NeedFolder(r, "send ahead"); err != nil {
		return nil, err
	}
	if jobs <= 0 {
		jobs = DefaultPushJobs
	}
	a, err := beginAhead(ctx, r)
	if err != nil {
		return nil, err
	}
	hurried := *r
	hurried.o.Retry.Deadline = aheadPatience
	a.u.r, a.free = &hurried, make(chan *Packer, jobs)
	for range jobs {
		w := pack.NewWriter(make([]byte, 0, aheadSize+2<<20))
		w.SetLimit(PackSizesFor(r.b, aheadSize).Limit)
		a.free <- &Packer{Writer: w}
	}
	return a, nil
}

// SendPacksAhead begins to send complete packs of another remote, by [EarlyPacks.SendPack]. The caller then calls
// [Remote.Push] or [Remote.Close].
func SendPacksAhead(ctx context.Context, r *Remote) (*EarlyPacks, error) {
	if err := NeedFolder(r, "send packs"); err != nil {
		return nil, err
	}
	return beginAhead(ctx, r)
}

// beginAhead makes the next push of r take over the packs that the result sends.
func beginAhead(ctx context.Context, r *Remote) (*EarlyPacks, error) {
	head, err := HeadToWrite(ctx, r)
	if err != nil {
		return nil, err
	}
	snap, err := r.SnapshotAt(ctx, head)
	if err != nil {
		return nil, err
	}
	if err := r.CheckWritable(ctx, snap.State); err != nil {
		return nil, err
	}
	own, err := r.takeOver(ctx)
	if err != nil {
		return nil, err
	}
	a := &EarlyPacks{snap: snap, u: &uploader{r: r, own: own, start: snap.State.Seq, meter: &Meter{}, looked: r.o.Now()}}
	r.ahead = a
	return a, nil
}

// SendPack sends a complete pack under a new name. The caller has verified all of its objects, and none of them is
// purged or lost on the remote. SendPack changes the name in body and in entries, which it takes over.
func (a *EarlyPacks) SendPack(ctx context.Context, body []byte, entries []pack.Entry) error {
	if err := a.u.checkEpoch(ctx); err != nil {
		return err
	}
	put := ctx
	if !slices.ContainsFunc(entries, func(e pack.Entry) bool { return e.Key.Kind.IsNode() }) {
		put = remote.WithContent(ctx)
	}
	name, err := a.u.r.putBlob(put, pack.Name.Path, func(name pack.Name) (io.ReaderAt, int64, error) {
		pack.Rename(body, name)
		return bytes.NewReader(body), int64(len(body)), nil
	})
	if err != nil {
		return err
	}
	for i := range entries {
		entries[i].Pack.Name = name
	}
	return a.u.noteSent(ctx, entries)
}

// Add sends the stored value of a chunk of raw bytes, with others in a pack. If the
// remote has the chunk, has purged it, or lists it as lost, it does nothing. It copies value, and waits if all packs are being
// sent. Ctx ends the sending, also later.
func (a *EarlyPacks) Add(ctx context.Context, key object.Key, value []byte, raw int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	if sent, err := a.u.own.findPack(key); sent != nil || err != nil {
		return // the push reports the error
	}
	if _, purged := a.snap.Records.Purged(key); purged || a.snap.IsLost(key) {
		return // the push would not use the pack
	}
	if _, there, err := a.snap.Find(key); there || err != nil {
		return
	}
	if a.filling != nil && (a.filling.Size() >= aheadSize || a.filling.Full(len(value))) {
		a.sendFilling(ctx)
	}
	if a.filling == nil {
		select {
		case a.filling = <-a.free:
			a.filling.Reset()
		case <-ctx.Done():
			return
		}
	}
	if err := a.filling.Add(key, value, raw); err != nil {
		a.ended = true
	}
}

// sendFilling sends the pack that is being filled. The caller holds a.mu.
func (a *EarlyPacks) sendFilling(ctx context.Context) {
	w := a.filling
	a.filling = nil
	a.uploads.Go(func() {
		err := a.u.putPack(ctx, w.Writer)
		a.free <- w
		if err != nil {
			a.mu.Lock()
			a.ended = true
			a.mu.Unlock()
		}
	})
}

// Sent returns the number of bytes in the sent packs. Call it after End.
func (a *EarlyPacks) Sent() int64 { return a.u.bytes }

// End sends the last pack, unless it is small, and waits until all packs are sent. Later
// calls of Add do nothing.
func (a *EarlyPacks) End(ctx context.Context) {
	a.mu.Lock()
	if a.filling != nil && !a.ended && a.filling.Size() >= SmallPack {
		a.sendFilling(ctx)
	}
	a.filling, a.ended = nil, true
	a.mu.Unlock()
	a.uploads.Wait()
	a.free = nil
}
