package versions

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/tree"
)

// The layout, see docs/format/versions.md.
const (
	fileName  = "changes"
	lockName  = "versions.lock"
	magic     = "kistver\x01"
	headSize  = len(magic) + len(object.ID{})
	blockHead = 8 // length and checksum
	blockSize = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// indexFile is the place of an index on disk.
type indexFile struct {
	kistDir string
	head    []byte // the first bytes of the file
	size    int64  // of the file when it was read; -1: it is not to be written
	valid   int64  // bytes of it that are intact; 0: not even the head
}

// loadFile reads the index in a .kist folder. It keeps the blocks before the first
// damaged one, and nothing of a file that has no valid content.
func loadFile(kistDir string) (*Index, error) {
	lost, err := kist.ReadLost(kistDir)
	if err != nil && !errors.Is(err, kist.ErrLostList) {
		return nil, err
	}
	sum := object.Sum(kist.EncodeLost(lost))
	f := indexFile{kistDir: kistDir, head: append([]byte(magic), sum[:]...)}

	data, err := disk.ReadFile(f.path())
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		f.size = -1 // a symlink, or an unreadable file
		return newIndex(f), nil
	case !bytes.HasPrefix(data, f.head):
		f.size = int64(len(data))
		return newIndex(f), nil
	}

	x := newIndex(f)
	x.disk.size, x.disk.valid = int64(len(data)), int64(headSize)
	for {
		payload, ok := nextBlock(data[x.disk.valid:])
		if !ok {
			return x, nil
		}
		if err := x.decodeBlock(payload); err != nil {
			x.reset()
			return x, nil
		}
		x.disk.valid += int64(blockHead + len(payload))
	}
}

func newIndex(f indexFile) *Index {
	return &Index{
		sums: map[object.ID]object.ID{}, pathNumbers: map[string]int32{}, commitNumbers: map[object.ID]int32{}, disk: f,
	}
}

// reset removes everything from the index. The next block replaces the file.
func (x *Index) reset() {
	empty := newIndex(indexFile{kistDir: x.disk.kistDir, head: x.disk.head, size: x.disk.size})
	empty.tips = x.tips
	*x = *empty
}

// nextBlock returns the payload of the first block in data, if it is intact.
func nextBlock(data []byte) (payload []byte, ok bool) {
	if len(data) < blockHead {
		return nil, false
	}
	size := binary.LittleEndian.Uint32(data)
	if uint64(size) > uint64(len(data)-blockHead) {
		return nil, false
	}
	payload = data[blockHead : blockHead+int(size)]
	return payload, crc32.Checksum(payload, castagnoli) == binary.LittleEndian.Uint32(data[4:])
}

func (f *indexFile) path() string { return filepath.Join(f.kistDir, Dir, fileName) }

// appendBlock writes a block behind the intact ones. It does nothing if the file cannot be
// written, or if another process changed it since it was read: then the
// next command adds the missing commits. A torn block has a wrong checksum, so
// nothing is synced.
func (f *indexFile) appendBlock(ctx context.Context, payload []byte) {
	if f.size < 0 || f.writeBlock(ctx, payload) != nil {
		f.size = -1
	}
}

var errChanged = errors.New("the file has changed")

func (f *indexFile) writeBlock(ctx context.Context, payload []byte) error {
	data := payload
	if len(payload) > math.MaxUint32 {
		return errors.New("too much for a block")
	}
	data = binary.LittleEndian.AppendUint32(make([]byte, 0, blockHead+len(payload)), uint32(len(payload)))
	data = binary.LittleEndian.AppendUint32(data, crc32.Checksum(payload, castagnoli))
	data = append(data, payload...)
	if f.valid == 0 {
		data = append(bytes.Clone(f.head), data...)
	}

	if err := disk.MkdirAll(filepath.Dir(f.path()), 0o700); err != nil {
		return err
	}
	lock, err := disk.Lock(ctx, filepath.Join(f.kistDir, lockName), disk.Exclusive, time.Second)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	out, err := disk.OpenFile(f.path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()

	info, err := out.Stat()
	if err == nil && info.Size() != f.size {
		err = errChanged
	}
	if err == nil && f.size > f.valid {
		err = out.Truncate(f.valid)
	}
	if err == nil {
		_, err = out.WriteAt(data, f.valid)
	}
	if err != nil {
		return err
	}
	f.valid += int64(len(data))
	f.size = f.valid
	return nil
}

// Discard deletes the index in a .kist folder.
func Discard(kistDir string) error { return disk.RemoveAll(filepath.Join(kistDir, Dir)) }

// The bits in the first byte of an encoded change, above its kind.
const (
	bitFrom = 1 << (3 + iota)
	bitSame
	bitA // removed: flagMoved; otherwise: flagAdded
	bitB // removed: flagDir; otherwise: manifest
	bitAttrs
)

// encodeBlock returns the payload of a block with the commits, changes and paths from the
// given numbers on, and with hashes.
func (x *Index) encodeBlock(commits, changes, paths int, sums map[object.ID]object.ID) []byte {
	buf := binary.AppendUvarint(nil, uint64(len(x.paths)-paths))
	last := ""
	for _, path := range x.paths[paths:] {
		n := 0
		for n < min(len(path), len(last)) && path[n] == last[n] {
			n++
		}
		buf = binary.AppendUvarint(buf, uint64(n))
		buf = binary.AppendUvarint(buf, uint64(len(path)-n))
		buf = append(buf, path[n:]...)
		last = path
	}

	buf = binary.AppendUvarint(buf, uint64(len(x.commits)-commits))
	rest := x.changes[changes:]
	for number := commits; number < len(x.commits); number++ {
		c := &x.commits[number]
		buf = append(buf, c.id[:]...)
		buf = binary.AppendVarint(buf, c.seconds)
		count := 2 * uint64(len(c.parents))
		if c.expired {
			count++
		}
		buf = binary.AppendUvarint(buf, count)
		for _, p := range c.parents {
			buf = binary.AppendUvarint(buf, uint64(number-1-int(p)))
		}
		n := 0
		for n < len(rest) && int(rest[n].commit) == number {
			n++
		}
		buf = binary.AppendUvarint(buf, uint64(n))
		for i := range rest[:n] {
			buf = rest[i].appendTo(buf, c.seconds)
		}
		rest = rest[n:]
	}

	buf = binary.AppendUvarint(buf, uint64(len(sums)))
	for id, sum := range sums {
		buf = append(append(buf, id[:]...), sum[:]...)
	}
	return buf
}

// appendTo appends a change of a commit made at the given time.
func (c *change) appendTo(buf []byte, seconds int64) []byte {
	first := byte(c.kind)
	set := func(bit byte, on bool) {
		if on {
			first |= bit
		}
	}
	set(bitFrom, c.from >= 0)
	set(bitSame, c.same > 0)
	set(bitA, c.flags&(flagMoved|flagAdded) != 0)
	set(bitB, c.flags&flagDir != 0 || c.manifest)
	set(bitAttrs, c.attrs != "")

	buf = binary.AppendUvarint(append(buf, first), uint64(c.path))
	if c.from >= 0 {
		buf = binary.AppendUvarint(buf, uint64(c.from))
	}
	if c.same > 0 {
		return binary.AppendUvarint(buf, uint64(c.same))
	}
	if c.isRemoval() {
		return buf
	}
	buf = binary.AppendUvarint(buf, uint64(c.mode))
	if c.kind != object.TypeDir {
		buf = binary.AppendUvarint(buf, c.size)
		buf = binary.AppendVarint(buf, seconds-c.mtime.Sec)
		buf = binary.AppendUvarint(buf, uint64(c.mtime.Nsec))
	}
	buf = append(buf, c.id[:]...)
	if c.attrs != "" {
		buf = append(binary.AppendUvarint(buf, uint64(len(c.attrs))), c.attrs...)
	}
	return buf
}

// blockDecoder reads a payload. After the first error it returns zeros.
type blockDecoder struct {
	data []byte
	err  error
}

func (d *blockDecoder) fail(text string) {
	if d.err == nil {
		d.data, d.err = nil, errors.New(text)
	}
}

func (d *blockDecoder) takeBytes(n uint64) []byte {
	if n > uint64(len(d.data)) {
		d.fail("ends too early")
		return nil
	}
	out := d.data[:n]
	d.data = d.data[n:]
	return out
}

func (d *blockDecoder) id() (id object.ID) {
	copy(id[:], d.takeBytes(uint64(len(id))))
	return id
}

// uvarint returns a number of at most limit.
func (d *blockDecoder) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 || v > limit {
		d.fail("bad number")
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *blockDecoder) varint() int64 {
	v, n := binary.Varint(d.data)
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.data = d.data[n:]
	return v
}

// listIndex returns a number of a list of n items.
func (d *blockDecoder) listIndex(n int) int32 {
	if n == 0 {
		d.fail("empty list")
		return 0
	}
	return int32(d.uvarint(uint64(n - 1)))
}

// decodeBlock adds the content of a block. After an error the index is of no use.
func (x *Index) decodeBlock(payload []byte) error {
	d := &blockDecoder{data: payload}
	last := ""
	for n := d.uvarint(math.MaxInt32); n > 0 && d.err == nil; n-- {
		shared := d.uvarint(uint64(len(last)))
		path := last[:shared] + string(d.takeBytes(d.uvarint(math.MaxInt32)))
		if _, twice := x.pathNumbers[path]; twice || path != "" && tree.CheckPath(path) != nil {
			d.fail("bad path")
			break
		}
		x.pathNumber(path)
		last = path
	}

	for n := d.uvarint(math.MaxInt32); n > 0 && d.err == nil; n-- {
		number := len(x.commits)
		c := commit{id: d.id(), seconds: d.varint()}
		count := d.uvarint(math.MaxInt32)
		c.expired = count%2 == 1
		for n := count / 2; n > 0 && d.err == nil; n-- {
			c.parents = append(c.parents, int32(number-1)-d.listIndex(number))
		}
		if _, twice := x.commitNumbers[c.id]; twice {
			d.fail("commit is there twice")
		}
		x.addCommit(c)
		for n := d.uvarint(math.MaxInt32); n > 0 && d.err == nil; n-- {
			x.changes = append(x.changes, d.decodeChange(len(x.paths), &c))
			x.changes[len(x.changes)-1].commit = int32(number)
		}
	}

	for n := d.uvarint(math.MaxInt32); n > 0 && d.err == nil; n-- {
		id := d.id()
		x.sums[id] = d.id()
	}
	if d.err == nil && len(d.data) > 0 {
		d.fail("goes on after its end")
	}
	if d.err != nil {
		return fmt.Errorf("versions: %w", d.err)
	}
	return nil
}

// decodeChange reads a change of commit c.
func (d *blockDecoder) decodeChange(paths int, c *commit) change {
	first := d.takeBytes(1)
	if len(first) == 0 {
		return change{}
	}
	has := func(bit byte) bool { return first[0]&bit != 0 }
	out := change{kind: object.EntryType(first[0] & 7), path: d.listIndex(paths), from: -1}
	if has(bitFrom) {
		out.from = d.listIndex(paths)
	}
	if has(bitSame) {
		if out.same = d.listIndex(len(c.parents)); out.same == 0 || first[0]&^bitSame != 0 {
			d.fail("bad parent")
		}
		return out
	}
	flag := func(bit byte, flag uint8) {
		if has(bit) {
			out.flags |= flag
		}
	}
	if out.isRemoval() {
		flag(bitA, flagMoved)
		flag(bitB, flagDir)
		return out
	}
	flag(bitA, flagAdded)
	out.manifest = has(bitB)
	out.mode = uint16(d.uvarint(math.MaxUint16))
	if out.kind != object.TypeDir {
		out.size = d.uvarint(math.MaxUint64)
		out.mtime.Sec = c.seconds - d.varint()
		out.mtime.Nsec = uint32(d.uvarint(1e9 - 1))
	}
	out.id = d.id()
	if has(bitAttrs) {
		out.attrs = string(d.takeBytes(d.uvarint(math.MaxInt32)))
		if _, err := decodeAttrs(out.attrs); err != nil {
			d.fail("bad attributes")
		}
	}
	return out
}

// pathNumber returns the number of a path. It adds a new path.
func (x *Index) pathNumber(path string) int32 {
	number, ok := x.pathNumbers[path]
	if !ok {
		number = int32(len(x.paths))
		x.paths = append(x.paths, path)
		x.pathNumbers[path] = number
	}
	return number
}

// addCommit adds a commit and its chain.
func (x *Index) addCommit(c commit) {
	number := int32(len(x.commits))
	c.chain = int32(len(x.chains))
	if p := c.firstParent(); p >= 0 && x.ends[x.commits[p].chain] == p {
		c.chain = x.commits[p].chain
	} else {
		x.chains, x.ends = append(x.chains, number), append(x.ends, number)
	}
	x.ends[c.chain] = number
	x.commits = append(x.commits, c)
	x.commitNumbers[c.id] = number
}
