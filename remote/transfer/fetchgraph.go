package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/pack"
)

// A fetch implements [ends]: the remote is the giver. It reads a node from the repository
// or, if that does not have the node, receives it.

func (f *fetch) giver() string {
	if f.r.source != nil {
		return "the other repository"
	}
	return "remote"
}

// node implements [ends].
func (f *fetch) node(ctx context.Context, key object.Key) ([]byte, error) {
	absent, err := f.absent(ctx, []object.Key{key})
	if err != nil {
		return nil, err
	}
	return f.nodeIf(ctx, key, len(absent) == 0)
}

// nodeIf returns a node: from the repository if here is set, or else from the remote. A
// node that is damaged or missing here, after all, comes from the remote, too.
func (f *fetch) nodeIf(ctx context.Context, key object.Key, here bool) ([]byte, error) {
	if here {
		data, err := f.session.Get(ctx, key)
		if !isAbsent(err) {
			return data, err
		}
	}
	if f.r.source != nil {
		return f.copyFrom(ctx, key)
	}
	p, err := f.snap.place(key)
	if err != nil {
		return nil, err
	}
	entries := []pack.Entry{p.Entry}
	if key.Kind == object.KindCommit { // the walk asks for commits one by one
		if entries, err = f.aheadOf(ctx, p.Entry); err != nil {
			return nil, err
		}
	}
	f.nodes.take(ctx, entries)
	return f.receive(ctx, p.Entry)
}

// certain implements [ends].
func (f *fetch) certain(ctx context.Context, key object.Key) ([]byte, error) {
	return f.session.Get(ctx, key)
}

// links implements [ends].
func (f *fetch) links(ctx context.Context, nodes []object.Key) ([][]object.Key, error) {
	absent, err := f.absent(ctx, nodes)
	if err != nil {
		return nil, err
	}
	away := make(map[object.Key]bool, len(absent))
	entries := make([]pack.Entry, len(absent))
	for i, key := range absent {
		p, err := f.snap.place(key)
		if err != nil {
			return nil, err
		}
		away[key], entries[i] = true, p.Entry
	}

	if f.r.source == nil {
		f.nodes.take(ctx, entries)
	}
	return linksOf(ctx, f.jobs, nodes, func(ctx context.Context, key object.Key) ([]byte, error) {
		return f.nodeIf(ctx, key, !away[key])
	})
}

// chunks implements [ends].
func (f *fetch) chunks(ctx context.Context, keys []object.Key) error {
	keys = slices.DeleteFunc(keys, func(key object.Key) bool { return f.plan.has(key.ID) })
	absent, err := f.absent(ctx, keys)
	if err != nil {
		return err
	}
	if f.r.source != nil {
		return parallel(ctx, f.jobs, len(absent), func(ctx context.Context, i int) error {
			_, err := f.copyFrom(ctx, absent[i])
			return err
		})
	}
	for _, key := range absent {
		p, err := f.snap.place(key)
		if err != nil {
			return err
		}
		f.plan.add(p.Entry)
	}
	return nil
}

// absent returns the keys that are not here, or cannot be searched for. The session
// checks the others when it publishes.
func (f *fetch) absent(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	absent, err := f.session.Missing(ctx, keys)
	if !errors.Is(err, object.ErrCorrupt) {
		return absent, err
	}
	absent = nil
	for _, key := range keys {
		missing, err := f.session.Missing(ctx, []object.Key{key})
		if errors.Is(err, object.ErrCorrupt) {
			missing, err = []object.Key{key}, nil
		}
		if err != nil {
			return nil, err
		}
		absent = append(absent, missing...)
	}
	return absent, nil
}

// receive stores a node whose pack was taken, and returns it.
func (f *fetch) receive(ctx context.Context, e pack.Entry) ([]byte, error) {
	value, err := f.nodes.value(e)
	if err == nil {
		var data []byte
		if data, err = f.store(ctx, f.nodes.values, e, value); err == nil {
			return data, nil
		}
	}
	if !isBad(err) {
		return nil, fmt.Errorf("read %s: %w", e.Key, err)
	}
	return f.readAgain(ctx, e.Key)
}

// nodePacks are copies of the packs with nodes. They have only the pieces, of maxRead
// bytes, that were needed. Most packs are a single piece. The copies lie in a temporary
// file, which is removed when it is closed, or in memory if the file system is read-only.
type nodePacks struct {
	get     func(ctx context.Context, p pack.Info, b []byte, off int64) (int, error)
	jobs    int
	file    *os.File // nil: the pieces are in memory
	buffers sync.Pool
	values  *pack.Values // of these

	mu    sync.Mutex // guards the following
	packs map[pack.Name][]*piece
	end   int64 // of the file
}

// piece is a part of a pack.
type piece struct {
	pack  pack.Info
	off   int64 // in the pack
	size  int
	place int64 // in the file

	load sync.Once
	n    int    // bytes that were read; fewer than size if the pack is too short
	data []byte // of these, without a file
	err  error
}

// openNodePacks makes the file in dir. The caller closes the result. If dir is empty, the
// error is errNoFolder.
func openNodePacks(dir string, jobs int, get func(context.Context, pack.Info, []byte, int64) (int, error)) (*nodePacks, error) {
	if dir == "" {
		return nil, errNoFolder
	}
	file, err := disk.CreateTemp(dir, "fetch-*")
	if errors.Is(err, syscall.EROFS) {
		file, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if file != nil { // where systems allow it, the open file has no name, so a kill leaves nothing
		disk.Remove(file.Name())
	}

	n := &nodePacks{get: get, jobs: jobs, file: file, packs: map[pack.Name][]*piece{}}
	n.values = pack.NewValues(n.part, 0)
	return n, nil
}

func (n *nodePacks) close() {
	if n.file == nil {
		return
	}
	n.file.Close()
	disk.Remove(n.file.Name())
}

// pieces returns the pieces in which the value of e lies. A value beyond the end of the
// pack has none.
func (n *nodePacks) pieces(e pack.Entry) []*piece {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.packs[e.Pack.Name]
	if all == nil {
		for off := int64(0); off < int64(e.Pack.Size); off += maxRead {
			size := min(maxRead, int64(e.Pack.Size)-off)
			all = append(all, &piece{pack: e.Pack, off: off, size: int(size), place: n.end + off})
		}
		n.end += int64(e.Pack.Size)
		n.packs[e.Pack.Name] = all
	}
	// Two index files may have different sizes for one pack.
	first, last := int64(e.Offset)/maxRead, (int64(e.Offset)+int64(e.Stored)-1)/maxRead
	there := int64(len(all))
	return all[min(first, there):min(last+1, there)]
}

// asked reports whether a piece of the pack of e was asked for.
func (n *nodePacks) asked(e pack.Entry) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.packs[e.Pack.Name] != nil
}

// take reads the pieces of packs with the values of entries, several at once. The function
// value returns the errors.
func (n *nodePacks) take(ctx context.Context, entries []pack.Entry) {
	var group errgroup.Group
	group.SetLimit(n.jobs)
	asked := map[*piece]bool{}
	for _, e := range entries {
		for _, p := range n.pieces(e) {
			if !asked[p] {
				asked[p] = true
				group.Go(func() error { p.load.Do(func() { n.load(ctx, p) }); return nil })
			}
		}
	}
	group.Wait()
}

// load reads a piece.
func (n *nodePacks) load(ctx context.Context, p *piece) {
	buf, ok := n.buffers.Get().(*[]byte)
	if !ok || len(*buf) < p.size {
		buf = new([]byte)
		*buf = make([]byte, p.size)
	}
	defer n.buffers.Put(buf)
	p.n, p.err = n.get(ctx, p.pack, (*buf)[:p.size], p.off)
	switch {
	case p.err != nil:
	case n.file == nil:
		p.data = bytes.Clone((*buf)[:p.n])
	default:
		_, p.err = n.file.WriteAt((*buf)[:p.n], p.place)
	}
}

// value returns the stored value of e, which take has read. It does not verify the value.
// If the pack ends within the value, the error matches [remote.ErrDamaged].
func (n *nodePacks) value(e pack.Entry) ([]byte, error) {
	value := make([]byte, 0, e.Stored)
	off := int64(e.Offset)
	for _, p := range n.pieces(e) {
		if p.err != nil {
			return nil, p.err
		}
		at := off - p.off
		part := value[len(value):min(len(value)+int(max(int64(p.size)-at, 0)), cap(value))]
		switch {
		case at+int64(len(part)) > int64(p.n):
			return nil, shortPack(e.Pack, p.off+int64(p.n))
		case n.file == nil:
			copy(part, p.data[at:])
		default:
			if _, err := n.file.ReadAt(part, p.place+at); err != nil {
				return nil, fmt.Errorf("read a pack again: %w", err)
			}
		}
		value = value[:len(value)+len(part)]
		off += int64(len(part))
	}
	if len(value) < int(e.Stored) {
		return nil, shortPack(e.Pack, off)
	}
	return value, nil
}

// part reads a part of a pack. It first reads the missing pieces from the remote. It is a
// [pack.Getter].
func (n *nodePacks) part(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	e := pack.Entry{Pack: p, Offset: uint32(off), Stored: uint32(len(b))}
	n.take(ctx, []pack.Entry{e})
	value, err := n.value(e)
	return copy(b, value), err
}

const (
	maxRead = 8 << 20   // bytes of a ranged read, unless a single value has more
	maxGap  = 128 << 10 // bytes between two values that are read to save a request
)

// chunkPlan has the chunks to fetch and their places. It takes about 65 bytes for each. It
// is not safe for concurrent use.
type chunkPlan struct {
	seed    maphash.Seed
	records []*[planBlock]planned
	n       int
	index   []uint32 // open addressing; number of a record + 1, or 0

	packs   []pack.Info
	numbers map[pack.Name]uint32 // of packs
	order   []uint32             // records by pack and offset
}

const planBlock = 1024

type planned struct {
	id                        object.ID
	pack, offset, stored, raw uint32
}

func newChunkPlan() *chunkPlan {
	return &chunkPlan{seed: maphash.MakeSeed(), index: make([]uint32, 256), numbers: map[pack.Name]uint32{}}
}

// at returns record i.
func (p *chunkPlan) at(i uint32) *planned { return &p.records[i/planBlock][i%planBlock] }

// slot returns the slot of id in the index, or the free slot for it.
func (p *chunkPlan) slot(id *object.ID) int {
	mask := len(p.index) - 1
	for i := int(maphash.Bytes(p.seed, id[:])) & mask; ; i = (i + 1) & mask {
		if n := p.index[i]; n == 0 || p.at(n-1).id == *id {
			return i
		}
	}
}

// has reports whether a chunk is in the plan.
func (p *chunkPlan) has(id object.ID) bool { return p.index[p.slot(&id)] != 0 }

// add adds the chunk of an entry, unless it is there.
func (p *chunkPlan) add(e pack.Entry) {
	slot := p.slot(&e.Key.ID)
	if p.index[slot] != 0 {
		return
	}

	number, ok := p.numbers[e.Pack.Name]
	if !ok {
		number = uint32(len(p.packs))
		p.packs = append(p.packs, e.Pack)
		p.numbers[e.Pack.Name] = number
	}
	if p.n%planBlock == 0 {
		p.records = append(p.records, new([planBlock]planned))
	}

	p.n++
	*p.at(uint32(p.n - 1)) = planned{e.Key.ID, number, e.Offset, e.Stored, e.Raw}
	p.index[slot] = uint32(p.n)
	if 4*p.n > 3*len(p.index) {
		p.index = make([]uint32, 2*len(p.index))
		for i := range uint32(p.n) {
			p.index[p.slot(&p.at(i).id)] = i + 1
		}
	}
}

// entry returns the entry of record i.
func (p *chunkPlan) entry(i uint32) pack.Entry {
	r := p.at(i)
	return pack.Entry{
		Key:  object.Key{Kind: object.KindChunk, ID: r.id},
		Pack: p.packs[r.pack], Offset: r.offset, Stored: r.stored, Raw: r.raw,
	}
}

// sort puts the records in the order in which they are read. Nothing is added
// afterwards.
func (p *chunkPlan) sort() {
	p.index = nil
	p.order = make([]uint32, p.n)
	for i := range p.order {
		p.order[i] = uint32(i)
	}
	slices.SortFunc(p.order, func(i, j uint32) int {
		a, b := p.at(i), p.at(j)
		return cmp.Or(cmp.Compare(a.pack, b.pack), cmp.Compare(a.offset, b.offset))
	})
}

// run is a part of a pack that is read at once, and the records in it.
type run struct {
	pack    pack.Info
	off     int64
	size    int
	records []uint32
}

// runs yields the parts of packs to read, after sort: neighbours together.
func (p *chunkPlan) runs() iter.Seq[run] {
	return func(yield func(run) bool) {
		for i := 0; i < len(p.order); {
			first := p.at(p.order[i])
			start, end := int64(first.offset), int64(first.offset)+int64(first.stored)
			j := i + 1
			for ; j < len(p.order); j++ {
				next := p.at(p.order[j])
				after := max(end, int64(next.offset)+int64(next.stored))
				if next.pack != first.pack || int64(next.offset)-end > maxGap || after-start > maxRead {
					break
				}
				end = after
			}
			if !yield(run{p.packs[first.pack], start, int(end - start), p.order[i:j]}) {
				return
			}
			i = j
		}
	}
}
