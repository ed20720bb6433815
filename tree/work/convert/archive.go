package convert

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"cmp"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Archive returns the source for a tar or zip file. A tar file may be compressed with
// gzip, zstd, xz or bzip2. The time is the one in the file's name, in zone if the name has
// none, or else the file's modification time.
func Archive(path string, zone *time.Location) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Source{}, err
	}
	if !info.Mode().IsRegular() {
		return Source{}, &fs.PathError{Op: "import", Path: path, Err: errors.New("not a file")}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Source{}, err
	}
	s := Source{Path: path, Name: filepath.Base(real), real: real, load: func(ctx context.Context, im *importer, s *Source) error {
		return loadArchive(ctx, im, func(context.Context) (io.ReadCloser, error) { return os.Open(real) })
	}}
	var dated bool
	if s.Time, dated = timeInName(s.Name, zone); !dated {
		s.Time = info.ModTime().In(zone)
	}
	return s, nil
}

// Tar returns the source for a tar stream, perhaps compressed, that open returns. The
// stream is complete if Close returns no error.
func Tar(name, host string, at time.Time, open func(ctx context.Context) (io.ReadCloser, error)) Source {
	return Source{Path: name, Name: name, Host: host, Time: at, real: name, load: func(ctx context.Context, im *importer, s *Source) error {
		return loadArchive(ctx, im, open)
	}}
}

// unpacker puts the members of an archive into an index.
type unpacker struct {
	*importer
	dst   *kist.Withheld // does not store purged content
	done  kist.Amount
	total kist.Amount
	read  atomic.Int64 // bytes of the archive so far; a decompressor may read in a goroutine of its own

	plain   limit // of what decompression returns
	content limit // of the contents of members, which may be sparse
}

// newUnpacker returns an unpacker with the limits of its archive.
func newUnpacker(im *importer, dst *kist.Withheld) *unpacker {
	u := &unpacker{importer: im, dst: dst}
	size := func() (int64, bool) { return max(u.read.Load(), u.total.Bytes), u.total.Bytes > 0 }
	u.plain = limit{chosen: im.MaxSize, size: size}
	u.content = limit{chosen: im.MaxSize, size: size}
	return u
}

// loadArchive stores the content of an archive and makes the index match it.
func loadArchive(ctx context.Context, im *importer, open func(ctx context.Context) (io.ReadCloser, error)) error {
	im.idx = index.New()
	records, err := im.repo.Purges().View()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	u := newUnpacker(im, &kist.Withheld{Writer: im.tx, Purges: records})
	if err = u.storeMembers(ctx, stream); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		cancel() // the rest is not needed
		stream.Close()
		return err
	}
	if err = cmp.Or(stream.Close(), err); err != nil {
		return err
	}
	return im.countFiles(ctx)
}

// storeMembers stores the members of an archive.
func (u *unpacker) storeMembers(ctx context.Context, stream io.Reader) error {
	f, ok := stream.(*os.File)
	if !ok {
		return u.storeTar(ctx, stream)
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	u.total.Bytes = info.Size()
	start := make([]byte, 4)
	n, _ := f.ReadAt(start, 0)
	if text := string(start[:n]); text == "PK\x03\x04" || text == "PK\x05\x06" {
		return u.storeZip(ctx, f, info.Size())
	}
	return u.storeTar(ctx, f)
}

// storeTar stores the members of a tar file, which may be compressed.
func (u *unpacker) storeTar(ctx context.Context, f io.Reader) error {
	read := &meteredReader{f, func(n int64) {
		u.read.Add(n)
		if u.done.Bytes += n; u.Progress != nil {
			u.Progress(u.done, u.total)
		}
	}}
	plain, err := decompress(bufio.NewReader(read))
	if err != nil {
		return err
	}
	defer plain.Close()
	end := &endReader{Reader: u.plain.limitReader("", plain)}
	archive := tar.NewReader(end)
	for first := true; ; first = false {
		h, err := archive.Next()
		if err == io.EOF {
			return end.checkEnd()
		}
		if first && (errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)) {
			return fmt.Errorf("no tar or zip archive, or a damaged one: %w", err)
		}
		if err == nil && h.Typeflag != tar.TypeXGlobalHeader {
			err = u.storeMember(ctx, h, archive)
		}
		if err != nil {
			return err
		}
	}
}

// endReader remembers the end of the bytes that were read.
type endReader struct {
	io.Reader
	last [512]byte // the last block
	n    int64     // bytes that were read
}

func (r *endReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n >= len(r.last) {
		copy(r.last[:], p[n-len(r.last):n])
	} else {
		copy(r.last[:], r.last[n:])
		copy(r.last[len(r.last)-n:], p[:n])
	}
	r.n += int64(n)
	return n, err
}

// checkEnd returns an error if a tar file does not end with a block of zeros, or has
// something else behind it. It reads the checksum at the end of compressed data.
func (r *endReader) checkEnd() error {
	if r.n < int64(len(r.last)) || r.last != [512]byte{} {
		return errors.New("it does not end with the end mark of a tar file, so it is incomplete")
	}
	rest := make([]byte, 32<<10)
	for {
		n, err := r.Reader.Read(rest)
		if slices.ContainsFunc(rest[:n], func(b byte) bool { return b != 0 }) {
			return errors.New("data follows the end mark of the tar file")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// compression is a way to compress a tar file.
type compression struct {
	name  string
	magic string // at the start of the file
	open  func(r io.Reader) (io.ReadCloser, error)
}

// compressions lists all that an import can read.
var compressions = []compression{
	{"gzip", "\x1f\x8b", func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }},
	{"zstd", "\x28\xb5\x2f\xfd", func(r io.Reader) (io.ReadCloser, error) {
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}},
	{"xz", "\xfd7zXZ\x00", newXZReader},
	{"bzip2", "BZh", func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil }},
}

// foreign has what other archives and compressed files begin with.
var foreign = map[string]string{
	"7z\xbc\xaf\x27\x1c": "7-Zip", "Rar!\x1a\x07": "RAR", "\x04\x22\x4d\x18": "lz4", "\x5d\x00\x00": "lzma", "LZIP": "lzip",
	"\x89LZO\x00": "lzop", "\x1f\x9d": "compress", "070701": "cpio", "070707": "cpio", "!<arch>": "ar",
}

// decompress returns the content of a file that may be compressed.
func decompress(r *bufio.Reader) (io.ReadCloser, error) {
	start, _ := r.Peek(8)
	for _, c := range compressions {
		if strings.HasPrefix(string(start), c.magic) {
			return c.open(r)
		}
	}
	for magic, name := range foreign {
		if strings.HasPrefix(string(start), magic) {
			return nil, fmt.Errorf("a file of %s, which kist does not read: unpack it first", name)
		}
	}
	return io.NopCloser(r), nil
}

// storeZip stores the members of a zip file.
func (u *unpacker) storeZip(ctx context.Context, f io.ReaderAt, size int64) error {
	archive, err := zip.NewReader(f, size)
	if err != nil {
		return err
	}
	announced := u.content // members may share their bytes in the archive
	for _, m := range archive.File {
		size := int64(min(m.UncompressedSize64, math.MaxInt64))
		if err := announced.announce(m.Name, size); err != nil {
			return err
		}
		announced.used += uint64(size)
	}
	for _, m := range archive.File {
		if err := u.zipMember(ctx, m); err != nil {
			return err
		}
		if u.done.Bytes += int64(m.CompressedSize64); u.Progress != nil {
			u.Progress(u.done, u.total)
		}
	}
	return nil
}

func (u *unpacker) zipMember(ctx context.Context, m *zip.File) error {
	h, err := tar.FileInfoHeader(m.FileInfo(), "")
	if err != nil {
		return err
	}
	h.Name, h.ModTime = m.Name, m.Modified
	content, err := m.Open()
	if err != nil {
		return fmt.Errorf("%q: %w", m.Name, err)
	}
	defer content.Close()
	if h.Typeflag == tar.TypeSymlink {
		target, err := io.ReadAll(io.LimitReader(content, object.MaxTargetSize+1))
		if err != nil {
			return fmt.Errorf("%q: %w", m.Name, err)
		}
		h.Linkname = string(target)
	}
	return u.storeMember(ctx, h, content)
}

// memberTypes has the types of members that become entries with the same type.
var memberTypes = map[byte]object.EntryType{
	tar.TypeReg: object.TypeFile, tar.TypeGNUSparse: object.TypeFile, tar.TypeCont: object.TypeFile,
	tar.TypeSymlink: object.TypeSymlink, tar.TypeFifo: object.TypeFIFO,
	tar.TypeChar: object.TypeCharDevice, tar.TypeBlock: object.TypeBlockDevice,
}

// storeMember stores a member of an archive.
func (u *unpacker) storeMember(ctx context.Context, h *tar.Header, content io.Reader) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path, err := tree.CleanPath(strings.TrimLeft(h.Name, "/"))
	if err != nil {
		return err
	}
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) > math.MaxUint32 || int64(h.Gid) > math.MaxUint32 {
		return fmt.Errorf("%q: owner %d:%d is not a number of 32 bits", path, h.Uid, h.Gid)
	}
	e := object.Entry{Mode: uint16(h.Mode & 0o7777), MTime: object.TimeOf(h.ModTime), Meta: u.metadata(h)}
	u.addACLs(path, h, &e)
	switch h.Typeflag {
	case 'V': // the label of a volume of GNU tar
		return nil
	case tar.TypeLink:
		return cmp.Or(u.storeHardLink(path, h.Linkname), u.addAttrs(path, h))
	case tar.TypeDir, 'D': // D: with a list of its names, by GNU tar
		e.Type = object.TypeDir
		return cmp.Or(u.idx.SetDir(path, e), u.addAttrs(path, h))
	case tar.TypeSymlink:
		e.Mode, e.Target = 0o777, h.Linkname
	}
	var known bool
	if e.Type, known = memberTypes[h.Typeflag]; !known {
		return fmt.Errorf("%q: unknown type %q of member", path, h.Typeflag)
	}
	if e.Meta == nil && e.Type > object.TypeSymlink {
		u.result.Special = append(u.result.Special, object.Skipped{Path: path, Reason: "special file"})
		return nil
	}

	if e.Type == object.TypeFile {
		if err := u.content.announce(path, h.Size); err != nil {
			return err
		}
		stored, err := u.repo.Worktree().StoreStream(ctx, u.dst, u.content.limitReader(path, content), nil)
		if err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
		e.Content, e.Size, e.Inline = stored.Entry.Content, stored.Entry.Size, stored.Entry.Inline
		why, err := u.repo.PurgedIn(ctx, u.dst.Purges, u.tx, &e)
		if err != nil && !errors.Is(err, object.ErrNotFound) {
			return err
		}
		if why != nil {
			u.result.Skipped = append(u.result.Skipped, object.Skipped{Path: path, Reason: why.Error()})
			return nil
		}
	}
	_, e.Name = tree.Split(path)
	return cmp.Or(u.idx.Set(path, index.NewEntry(e, index.Stat{})), u.addAttrs(path, h))
}

// metadata returns the full metadata of a member, or nil if the repository does not
// record it.
func (u *unpacker) metadata(h *tar.Header) *object.Metadata {
	if u.repo.Config().Metadata != kist.MetadataFull {
		return nil
	}
	m := &object.Metadata{UID: uint32(h.Uid), GID: uint32(h.Gid), Owner: h.Uname, Group: h.Gname}
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		m.Device = unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))
	}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, "SCHILY.xattr."); ok {
			if m.Xattrs == nil {
				m.Xattrs = map[string][]byte{}
			}
			m.Xattrs[tarKey.Replace(name)] = []byte(value)
		}
	}
	return m
}

// tarKey restores the characters that a key of a tar header cannot have.
var tarKey = strings.NewReplacer("%25", "%", "%3D", "=")

// storeHardLink adds another name of a file that came before. Full metadata has a group for such
// names: see [worktree.HardLinkGroup].
func (u *unpacker) storeHardLink(path, name string) error {
	target, err := tree.CleanPath(strings.TrimLeft(name, "/"))
	if err != nil {
		return err
	}
	from := u.idx.Entry(target)
	if from == nil {
		return fmt.Errorf("%q: hard link to %q, which is no file before it in the archive", path, target)
	}
	e := *from
	if m := e.Metadata(); m != nil && m.HardLink == 0 {
		e.SetHardLink(worktree.HardLinkGroup(target))
		if err := u.idx.Set(target, e); err != nil {
			return err
		}
	}
	_, e.Name = tree.Split(path)
	if err := u.idx.Set(path, e); err != nil || len(e.Attrs()) == 0 {
		return err
	}
	return u.idx.SetAttrs(path, nil) // each name has its own
}

// meteredReader calls read with the number of bytes of each read.
type meteredReader struct {
	io.Reader
	read func(n int64)
}

func (m *meteredReader) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.read(int64(n))
	return n, err
}
