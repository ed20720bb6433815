package versions

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
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

	file, err := disk.Open(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return newIndex(f), nil
	}
	if err == nil {
		defer file.Close()
		f.size, err = file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		f.size = -1 // a symlink, or an unreadable file
		return newIndex(f), nil
	}

	x := newIndex(f)
	head := make([]byte, headSize)
	if _, err := file.ReadAt(head, 0); err != nil || !bytes.Equal(head, f.head) {
		return x, nil
	}
	x.disk.valid = int64(headSize)
	for {
		payload, sum, ok := nextBlock(file, x.disk.valid, f.size)
		if !ok {
			return x, nil
		}
		again := crc32.New(castagnoli) // other processes may replace the file
		size := payload.Size()
		if err := x.decodeBlock(io.TeeReader(payload, again), uint64(size)); err != nil || again.Sum32() != sum {
			x.reset()
			return x, nil
		}
		x.disk.valid += blockHead + size
	}
}

func newIndex(f indexFile) *Index {
	return &Index{
		sums: map[object.ID]object.ID{}, commitNumbers: map[object.ID]int32{}, disk: f,
	}
}

// reset removes everything from the index. The next block replaces the file.
func (x *Index) reset() {
	empty := newIndex(indexFile{kistDir: x.disk.kistDir, head: x.disk.head, size: x.disk.size})
	empty.tips = x.tips
	*x = *empty
}

// nextBlock returns the payload of the block at an offset of a file of the given size, and its checksum, if the block is intact.
func nextBlock(file io.ReaderAt, at, size int64) (payload *io.SectionReader, sum uint32, ok bool) {
	head := make([]byte, blockHead)
	if size-at < blockHead {
		return nil, 0, false
	}
	if _, err := file.ReadAt(head, at); err != nil {
		return nil, 0, false
	}
	length := int64(binary.LittleEndian.Uint32(head))
	if sum = binary.LittleEndian.Uint32(head[4:]); length > size-at-blockHead {
		return nil, 0, false
	}
	payload = io.NewSectionReader(file, at+blockHead, length)
	found := crc32.New(castagnoli)
	if n, err := io.Copy(found, payload); err != nil || n != length || found.Sum32() != sum {
		return nil, 0, false
	}
	_, err := payload.Seek(0, io.SeekStart)
	return payload, sum, err == nil
}

func (f *indexFile) path() string { return filepath.Join(f.kistDir, Dir, fileName) }

// appendBlock writes a block behind the intact ones. Encode writes its payload, the same in each call. It does nothing if the file cannot be
// written, or if another process changed it since it was read: then the
// next command adds the missing commits. A torn block has a wrong checksum, so
// nothing is synced.
func (f *indexFile) appendBlock(ctx context.Context, encode func(io.Writer) error) {
	if f.size < 0 || f.writeBlock(ctx, encode) != nil {
		f.size = -1
	}
}

var errChanged = errors.New("the file has changed")

func (f *indexFile) writeBlock(ctx context.Context, encode func(io.Writer) error) error {
	var size byteCounter
	sum := crc32.New(castagnoli)
	if err := encode(io.MultiWriter(&size, sum)); err != nil {
		return err
	}
	if size > math.MaxUint32 {
		return errors.New("too much for a block")
	}
	var head []byte
	if f.valid == 0 {
		head = f.head
	}
	head = binary.LittleEndian.AppendUint32(bytes.Clone(head), uint32(size))
	head = binary.LittleEndian.AppendUint32(head, sum.Sum32())

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
	w := io.NewOffsetWriter(out, f.valid)
	if err == nil {
		_, err = w.Write(head)
	}
	if err == nil {
		err = encode(w)
	}
	if err != nil {
		return err
	}
	f.valid += int64(len(head)) + int64(size)
	f.size = f.valid
	return nil
}

// byteCounter is a writer that counts bytes.
type byteCounter int64

func (n *byteCounter) Write(p []byte) (int, error) {
	*n += byteCounter(len(p))
	return len(p), nil
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

// encodeBlock writes the payload of a block with the commits, changes and paths from the given numbers on, and with hashes.
func (x *Index) encodeBlock(to io.Writer, commits int, changes, paths int32, sums map[object.ID]object.ID) error {
	w := bufio.NewWriterSize(to, 64<<10)
	w.Write(binary.AppendUvarint(w.AvailableBuffer(), uint64(x.paths.len()-paths)))
	last := ""
	for number := paths; number < x.paths.len(); number++ {
		path := x.paths.path(number)
		n := 0
		for n < min(len(path), len(last)) && path[n] == last[n] {
			n++
		}
		buf := binary.AppendUvarint(w.AvailableBuffer(), uint64(n))
		buf = binary.AppendUvarint(buf, uint64(len(path)-n))
		w.Write(append(buf, path[n:]...))
		last = path
	}

	w.Write(binary.AppendUvarint(w.AvailableBuffer(), uint64(len(x.commits)-commits)))
	for number := commits; number < len(x.commits); number++ {
		c := &x.commits[number]
		end := changes
		for end < x.changes.len() && int(x.changes.at(end).commit) == number {
			end++
		}
		w.Write(binary.AppendUvarint(c.appendTo(w.AvailableBuffer(), number), uint64(end-changes)))
		for ; changes < end; changes++ {
			w.Write(x.changes.at(changes).appendTo(w.AvailableBuffer(), c.seconds))
		}
	}

	w.Write(binary.AppendUvarint(w.AvailableBuffer(), uint64(len(sums))))
	for _, id := range slices.SortedFunc(maps.Keys(sums), object.ID.Compare) {
		sum := sums[id]
		w.Write(append(append(w.AvailableBuffer(), id[:]...), sum[:]...))
	}
	return w.Flush() // with the error of any write
}

// appendTo appends a commit of the given number, without its changes.
func (c *commit) appendTo(buf []byte, number int) []byte {
	buf = binary.AppendVarint(append(buf, c.id[:]...), c.seconds)
	count := 2 * uint64(len(c.parents))
	if c.expired {
		count++
	}
	buf = binary.AppendUvarint(buf, count)
	for _, p := range c.parents {
		buf = binary.AppendUvarint(buf, uint64(number-1-int(p)))
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

// blockDecoder reads a payload, a piece at a time. After the first error it returns zeros.
type blockDecoder struct {
	from io.Reader
	left uint64 // bytes that were not read yet
	data []byte // that were read; valid until the next read
	buf  []byte // has data at its end
	err  error
}

func (d *blockDecoder) fail(text string) {
	if d.err == nil {
		d.data, d.left, d.err = nil, 0, errors.New(text)
	}
}

// fillBuffer reads until data has n bytes, or until the end of the payload.
func (d *blockDecoder) fillBuffer(n uint64) {
	if uint64(len(d.data)) >= n || d.left == 0 {
		return
	}
	have := len(d.data)
	more := min(d.left, max(n-uint64(have), 64<<10))
	d.buf = slices.Grow(append(d.buf[:0], d.data...), int(more))[:have+int(more)]
	d.data = d.buf
	if _, err := io.ReadFull(d.from, d.data[have:]); err != nil {
		d.fail(err.Error())
		return
	}
	d.left -= more
}

// takeBytes returns the next n bytes, until the next call of a method.
func (d *blockDecoder) takeBytes(n uint64) []byte {
	if n > uint64(len(d.data)) && n-uint64(len(d.data)) > d.left {
		d.fail("ends too early")
		return nil
	}
	d.fillBuffer(n)
	if d.err != nil {
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
	d.fillBuffer(binary.MaxVarintLen64)
	v, n := binary.Uvarint(d.data)
	if n <= 0 || v > limit {
		d.fail("bad number")
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *blockDecoder) varint() int64 {
	d.fillBuffer(binary.MaxVarintLen64)
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

// decodeBlock adds the content of a block with a payload of the given size. After an error the index is of no use.
func (x *Index) decodeBlock(payload io.Reader, size uint64) error {
	d := &blockDecoder{from: payload, left: size}
	last := ""
	for n := d.uvarint(math.MaxInt32); n > 0 && d.err == nil; n-- {
		shared := d.uvarint(uint64(len(last)))
		path := last[:shared] + string(d.takeBytes(d.uvarint(math.MaxInt32)))
		if _, twice := x.paths.number(path); twice || path != "" && tree.CheckPath(path) != nil {
			d.fail("bad path")
			break
		}
		x.paths.numberOf(path)
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
			out := d.decodeChange(int(x.paths.len()), &c)
			out.commit = int32(number)
			x.changes.add(out)
		}
	}

	for n := d.uvarint(math.MaxInt32); n > 0 && d.err == nil; n-- {
		id := d.id()
		x.sums[id] = d.id()
	}
	if d.err == nil && uint64(len(d.data))+d.left > 0 {
		d.fail("goes on after its end")
	}
	if d.err != nil {
		return fmt.Errorf("versions: %w", d.err)
	}
	return nil
}

// decodeChange reads a change of commit c.
func (d *blockDecoder) decodeChange(paths int, c *commit) change {
	head := d.takeBytes(1)
	if len(head) == 0 {
		return change{}
	}
	first := head[0]
	has := func(bit byte) bool { return first&bit != 0 }
	out := change{kind: object.EntryType(first & 7), path: d.listIndex(paths), from: -1}
	if has(bitFrom) {
		out.from = d.listIndex(paths)
	}
	if has(bitSame) {
		if out.same = d.listIndex(len(c.parents)); out.same == 0 || first&^bitSame != 0 {
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
