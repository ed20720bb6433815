package browse

import (
	"context"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// Read-ahead begins with firstAhead bytes and doubles up to mostAhead. A [History] with a small cache
// reads less ahead, so that several readers fit in it: see [aheadFor].
const (
	firstAhead = 1 << 20
	mostAhead  = 8 << 20 // a request; the next is made when half of it is read
)

// aheadFor returns the most bytes to read ahead at once with a cache of so many bytes.
func aheadFor(cache int64) int64 { return min(cache/16, mostAhead) }

// readAhead plans reads ahead of a position that grows: an offset in a file, or a number of
// bytes of files in a folder. It plans ever larger batches.
type readAhead struct {
	most int64  // bytes of a batch
	end  uint64 // everything before it was planned
	size int64  // of the last batch; 0: there was none
	left int64  // bytes that may still be added to the batch
	some bool   // the batch has something
}

// isDue reports whether another batch is to be planned at a position, and begins it.
func (a *readAhead) isDue(at uint64) bool {
	if a.end > at && a.end-at > uint64(a.size/2) {
		return false
	}
	if a.end < at { // it was overtaken, or nothing was planned
		a.end, a.size = at, 0
	}
	a.size = min(max(2*a.size, firstAhead), a.most)
	a.left, a.some = a.size, false
	return a.size > 0
}

// add adds something of n bytes to the batch, up to the position end, and reports whether it fits.
func (a *readAhead) add(end uint64, n int64) bool {
	if n > a.left && a.some {
		return false
	}
	a.end, a.some = end, true
	a.left -= n
	return true
}

// close ends a batch.
func (a *readAhead) close() {
	if !a.some {
		a.size = 0
	}
}

// folderReads notices programs that read the files of a folder in their order, and reads the next ones
// ahead. It is safe for concurrent use.
type folderReads struct {
	mu sync.Mutex // guards the following
	at map[object.ID]*folderRead
}

// folderRead is the progress of reads in a folder.
type folderRead struct {
	last  string // the file that was begun last
	files int    // that were begun in order
	at    uint64 // their bytes
	next  string // the first file that was not planned; "": none was
	ahead readAhead
	done  bool // all files are planned
}

const (
	minFiles    = 2  // to read in order before others are read ahead
	mostFolders = 32 // that are noticed at once
)

// begin notes that a file of the folder tree is read from its start.
func (f *folderReads) begin(ctx context.Context, r cachedReader, tree object.ID, e *object.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.at[tree]
	switch {
	case p == nil:
		if f.at == nil || len(f.at) >= mostFolders {
			f.at = map[object.ID]*folderRead{}
		}
		p = &folderRead{}
		f.at[tree] = p
	case e.Name == p.last:
		return
	case e.Name < p.last:
		*p = folderRead{}
	}
	p.last, p.at = e.Name, p.at+e.Size
	if p.files++; p.files <= minFiles || p.done {
		return
	}
	p.ahead.most = r.ahead
	if !p.ahead.isDue(p.at) {
		return
	}
	object.Prefetch(ctx, r, p.plan(ctx, r, tree))
}

// plan returns the next batch: the content of small files, and the chunk lists of large ones.
func (p *folderRead) plan(ctx context.Context, r cachedReader, tree object.ID) (keys []object.Key) {
	from, end := max(p.last, p.next), p.ahead.end
	p.done = true
	for e, err := range object.EntriesFrom(ctx, r, tree, from) {
		if err != nil {
			break // a lookup finds the error
		}
		if e.Type != object.TypeFile || e.Name == p.last {
			continue
		}
		size := int64(e.Size)
		if e.Content.Kind != object.KindChunk {
			size = 0
		}
		if end += e.Size; !p.ahead.add(end, size) {
			p.next, p.done = e.Name, false
			break
		}
		if !e.Content.IsZero() {
			keys = append(keys, e.Content)
		}
	}
	p.ahead.close()
	return keys
}
