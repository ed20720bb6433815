package checkout

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// ArchiveFormats are the formats that [Archive] writes. Each is also the extension of
// its files.
var ArchiveFormats = []string{"tar", "tar.gz", "tar.zst", "tar.xz", "zip"}

// ArchiveOptions configure [Archive].
type ArchiveOptions struct {
	Paths    []string  // paths of the view; "" is all of them
	Format   string    // one of ArchiveFormats
	Prefix   string    // is put before each name
	Time     time.Time // of entries without a modification time
	Progress kist.Progress

	// Select reports whether the archive has the entry at a path; nil: it has all. A folder
	// that is left out can still have content.
	Select func(path string) (bool, error)
}

// Archive writes paths of a view to w as an archive, and returns the archived amount.
// The same view and options give the same bytes. Archive stops with the first error,
// also if content is damaged or missing, and the archive is then incomplete. It leaves out
// sockets, and in a zip archive FIFOs and devices.
func Archive(ctx context.Context, source compare.Side, w io.Writer, o ArchiveOptions) (done kist.Amount, err error) {
	paths := stage.Outermost(o.Paths)
	var total kist.Amount
	for _, path := range paths {
		e, err := source.Find(ctx, path)
		if err != nil {
			return done, err
		}
		if e.Type == object.TypeDir {
			total.Files += int64(e.Files)
		} else {
			total.Files++
		}
		total.Bytes += int64(e.Size)
	}

	a, err := newArchiver(w, o.Format)
	if err != nil {
		return done, err
	}
	defer a.stop()

	batch := newEntryBatch(source.Objects, func(path string, e object.Entry) error {
		if err := a.addEntry(ctx, source.Objects, archiveHeader(path, e, o), e); err != nil {
			return fmt.Errorf("archive %q: %w", path, err)
		}
		if e.Type != object.TypeDir {
			done.Files++
			done.Bytes += int64(e.Size)
		}
		if o.Progress != nil {
			o.Progress(done, total)
		}
		return nil
	})
	written := map[string]bool{} // folders
	add := func(path string, e object.Entry) error {
		if o.Select != nil {
			if selected, err := o.Select(path); !selected || err != nil {
				return err
			}
		}
		if e.Type == object.TypeDir {
			if written[path] {
				return nil
			}
			written[path] = true
		}
		return batch.add(ctx, path, e)
	}

	for _, path := range paths {
		if err := source.Walk(ctx, path, add); err != nil {
			return done, err
		}
	}
	if err := batch.flush(ctx); err != nil {
		return done, err
	}

	return done, a.finish()
}

// entryBatch passes the entries of a walk on to each, after it has prefetched the content of several.
type entryBatch struct {
	each    func(path string, e object.Entry) error
	files   *object.FileBatch // nil: all content is here
	entries []pathEntry
}

type pathEntry struct {
	path string
	object.Entry
}

// mostEntries bounds the entries of a batch.
const mostEntries = 4096

func newEntryBatch(objects object.Reader, each func(path string, e object.Entry) error) *entryBatch {
	b := &entryBatch{each: each}
	if object.HasFar(objects) {
		b.files = object.NewFileBatch(objects)
	}
	return b
}

func (b *entryBatch) add(ctx context.Context, path string, e object.Entry) error {
	if b.files == nil {
		return b.each(path, e)
	}
	b.entries = append(b.entries, pathEntry{path, e})
	if b.files.Add(ctx, e) && len(b.entries) < mostEntries {
		return nil
	}
	return b.flush(ctx)
}

// flush passes on all entries that were added.
func (b *entryBatch) flush(ctx context.Context) error {
	if b.files == nil {
		return nil
	}
	b.files.Prefetch(ctx)
	for _, e := range b.entries {
		if err := b.each(e.path, e.Entry); err != nil {
			return err
		}
	}
	b.entries = b.entries[:0]
	return nil
}

// archiveHeader returns the header of an entry for both kinds of archive.
func archiveHeader(path string, e object.Entry, o ArchiveOptions) *tar.Header {
	h := &tar.Header{
		Name: o.Prefix + path, Mode: int64(e.Mode), ModTime: o.Time, Format: tar.FormatPAX,
	}
	if at, ok := e.Modified(); ok {
		h.ModTime = at
	}
	switch e.Type {
	case object.TypeDir:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case object.TypeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Target
	case object.TypeFile:
		h.Typeflag, h.Size = tar.TypeReg, int64(e.Size)
	case object.TypeFIFO:
		h.Typeflag = tar.TypeFifo
	case object.TypeCharDevice:
		h.Typeflag = tar.TypeChar
	case object.TypeBlockDevice:
		h.Typeflag = tar.TypeBlock
	}

	if m := e.Meta; m != nil {
		h.Uid, h.Gid, h.Uname, h.Gname = int(m.UID), int(m.GID), m.Owner, m.Group
		h.Devmajor, h.Devminor = int64(unix.Major(m.Device)), int64(unix.Minor(m.Device))
		h.PAXRecords = map[string]string{}
		for name, value := range m.Xattrs {
			h.PAXRecords["SCHILY.xattr."+tarKey.Replace(name)] = string(value)
			if kind, ok := strings.CutPrefix(name, "system.posix_acl_"); ok {
				if acl, err := tree.DecodeACL(value); err == nil {
					h.PAXRecords["SCHILY.acl."+kind] = acl.String() // what tar --acls and bsdtar read
				}
			}
		}
	}
	for key, value := range e.Attrs {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords["KIST.attr."+tarKey.Replace(key)] = value // what kist import tar reads
	}
	return h
}

// tarKey replaces the characters that a key of a tar header cannot have, as GNU tar does.
var tarKey = strings.NewReplacer("%", "%25", "=", "%3D", "\x00", "%00")

// An archiver writes the entries of an archive.
type archiver struct {
	tar    *tar.Writer
	zip    *zip.Writer
	finish func() error
	stop   func() // frees memory, also after an error

	links map[uint64]string // tar: the first name of each hard-link group
}

func newArchiver(w io.Writer, format string) (archiver, error) {
	switch format {
	case "tar":
		t := tar.NewWriter(w)
		return archiver{tar: t, finish: t.Close, stop: func() {}, links: map[uint64]string{}}, nil
	case "tar.zst":
		z, err := zstd.NewWriter(w)
		return compressedTar(z), err
	case "tar.gz":
		return compressedTar(gzip.NewWriter(w)), nil
	case "tar.xz":
		z, err := xz.NewWriter(w)
		return compressedTar(z), err
	case "zip":
		z := zip.NewWriter(w)
		return archiver{zip: z, finish: z.Close, stop: func() {}}, nil
	}
	return archiver{}, fmt.Errorf("archive format %q is not one of %s", format, strings.Join(ArchiveFormats, ", "))
}

// compressedTar returns an archiver of a tar archive that z compresses.
func compressedTar(z io.WriteCloser) archiver {
	t := tar.NewWriter(z)
	return archiver{tar: t, stop: func() { z.Close() }, links: map[uint64]string{}, finish: func() error {
		return cmp.Or(t.Close(), z.Close())
	}}
}

func (a archiver) addEntry(ctx context.Context, objects object.Reader, h *tar.Header, e object.Entry) error {
	special := h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeSymlink
	if e.Type == object.TypeSocket || special && a.zip != nil {
		return nil
	}
	content := io.Reader(object.NewContentReader(ctx, objects, e))
	if a.tar != nil {
		if m := e.Meta; m != nil && m.HardLink != 0 {
			if first, ok := a.links[m.HardLink]; ok {
				h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			} else {
				a.links[m.HardLink] = h.Name
			}
		}
		if err := a.tar.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
			return err
		}
		_, err := io.Copy(a.tar, content)
		return err
	}

	z := &zip.FileHeader{Name: h.Name, Modified: h.ModTime.UTC(), Method: zip.Deflate}
	z.SetMode(h.FileInfo().Mode())
	switch h.Typeflag {
	case tar.TypeDir:
		z.Method, content = zip.Store, strings.NewReader("")
	case tar.TypeSymlink:
		content = strings.NewReader(h.Linkname)
	}

	w, err := a.zip.CreateHeader(z)
	if err == nil {
		_, err = io.Copy(w, content)
	}
	return err
}
