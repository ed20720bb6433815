package views

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// pool keeps the contents that the views of a repository link to: read-only files named by the
// SHA-256 of their bytes, sha256/ab/cd/abcd…. All views share it.
type pool struct {
	dir      string // with the folder sha256
	root     *os.Root
	folder   *os.File // the same as root
	contents object.Reader
	known    map[object.ID]object.ID // the SHA-256 of the content of a manifest
	dry      bool                    // write nothing
}

// poolTemp is a file of the pool that is being written.
const poolTemp = "new"

// openPool opens the pool, and creates it if necessary. The caller closes it.
func openPool(r *kist.Repository) (*pool, error) {
	dir := filepath.Join(r.Dir(), viewsDir, poolDir)
	if err := disk.MkdirAll(filepath.Join(dir, "sha256"), 0o777); err != nil {
		return nil, err
	}
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	folder, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	return &pool{dir: dir, root: root, folder: folder, contents: r.Contents(), known: map[object.ID]object.ID{}}, nil
}

// poolPath returns the path of a content in the pool.
func poolPath(sum object.ID) string {
	text := sum.String()
	return "sha256/" + text[:2] + "/" + text[2:4] + "/" + text
}

// sumOfPath is the inverse of [poolPath]. It reports whether path is one.
func sumOfPath(p string) (object.ID, bool) {
	sum, err := object.ParseID(path.Base(p))
	return sum, err == nil && poolPath(sum) == p
}

// knownSum returns the SHA-256 of a file's content, if that needs no reading of the content.
func (p *pool) knownSum(e *object.Entry) (object.ID, bool) {
	switch e.Content.Kind {
	case object.KindChunk:
		return e.Content.ID, true
	case object.KindManifest:
		sum, known := p.known[e.Content.ID]
		return sum, known
	}
	return object.Sum(e.Inline), true
}

// close closes the pool.
func (p *pool) close() {
	p.folder.Close()
	p.root.Close()
}

// hasFile reports whether the pool has a file with this name and size. It is one system call, not
// one for each folder as in [os.Root]. A hostile symlink in the pool would only be followed to
// a size; reads and writes follow none that leads out.
func (p *pool) hasFile(sum object.ID, size uint64) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(p.folder.Fd()), poolPath(sum), &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && uint64(st.Size) == size, err
}

// putFile makes sure that the pool has the content of a file, and returns its SHA-256. It does not
// read the bytes that are there already: [Verify] does.
func (p *pool) putFile(ctx context.Context, e *object.Entry) (object.ID, error) {
	sum, known := p.knownSum(e)
	if known && p.dry {
		return sum, nil
	}
	if known {
		if has, err := p.hasFile(sum, e.Size); has || err != nil {
			return sum, err
		}
	}
	if p.dry {
		hash := sha256.New()
		_, err := io.Copy(hash, object.NewContentReader(ctx, p.contents, *e))
		return object.ID(hash.Sum(nil)), err
	}
	written, err := p.writeTemp(ctx, e)
	if err != nil {
		return sum, errors.Join(err, p.removeFile(poolTemp))
	}
	if known && written != sum {
		return sum, errors.Join(&object.CorruptError{Key: e.Content, Err: errors.New("its SHA-256 differs")}, p.removeFile(poolTemp))
	}
	if e.Content.Kind == object.KindManifest {
		p.known[e.Content.ID] = written
	}
	return written, p.placeTemp(written)
}

// writeTemp copies the content of a file to [poolTemp], and returns its SHA-256.
func (p *pool) writeTemp(ctx context.Context, e *object.Entry) (sum object.ID, err error) {
	if err := p.removeFile(poolTemp); err != nil {
		return sum, err
	}
	f, err := p.root.OpenFile(poolTemp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return sum, err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, hash), object.NewContentReader(ctx, p.contents, *e))
	if err == nil && uint64(n) != e.Size {
		err = fmt.Errorf("read %d of %d bytes", n, e.Size)
	}
	return object.ID(hash.Sum(nil)), errors.Join(err, f.Close())
}

// placeTemp gives [poolTemp] its name, in place of a damaged file.
func (p *pool) placeTemp(sum object.ID) error {
	name := poolPath(sum)
	err := p.root.Rename(poolTemp, name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := p.root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return err
		}
		err = p.root.Rename(poolTemp, name)
	}
	return err
}

// removeFile removes a file of the pool, if it exists.
func (p *pool) removeFile(name string) error {
	if err := p.root.RemoveAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isDamaged reports whether the file of a content differs from its name. The error is that of
// reading, and matches [fs.ErrNotExist] if there is no file.
func (p *pool) isDamaged(sum object.ID) (bool, error) {
	name := poolPath(sum)
	info, err := p.root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return true, err
	}
	f, err := p.root.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	defer f.Close()

	hash := sha256.New()
	_, err = io.Copy(hash, f)
	return object.ID(hash.Sum(nil)) != sum, err
}

// makeReadOnly makes an intact file read-only again.
func (p *pool) makeReadOnly(sum object.ID) error {
	info, err := p.root.Lstat(poolPath(sum))
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if want := mode&^0o222 | 0o400; mode != want {
		return p.root.Chmod(poolPath(sum), want)
	}
	return nil
}

// unusedFiles returns the files of the pool that are not in used. It removes them if remove is set.
func (p *pool) unusedFiles(used map[object.ID]bool, remove bool) (orphans []string, err error) {
	err = fs.WalkDir(p.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if sum, named := sumOfPath(name); !named || !used[sum] {
			orphans = append(orphans, name)
		}
		return nil
	})
	if !remove || err != nil {
		return orphans, err
	}
	for _, name := range orphans {
		if err := p.removeFile(name); err != nil {
			return orphans, err
		}
		for dir := path.Dir(name); strings.Contains(dir, "/"); dir = path.Dir(dir) {
			if p.root.Remove(dir) != nil {
				break // not empty
			}
		}
	}
	return orphans, nil
}
