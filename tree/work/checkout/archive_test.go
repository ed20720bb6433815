package checkout_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// archived is an entry of an archive of any format.
type archived struct {
	Name, Content string // Content is the target of a symlink
	Mode          os.FileMode
	Time          int64 // in seconds
}

func readTar(t *testing.T, r io.Reader) (list []archived) {
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return list
		}
		kisttest.Check(t, err)
		content, err := io.ReadAll(archive)
		kisttest.Check(t, err)
		list = append(list, archived{h.Name, string(content) + h.Linkname, h.FileInfo().Mode(), h.ModTime.Unix()})
	}
}

func readZip(t *testing.T, data []byte) (list []archived) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	kisttest.Check(t, err)
	for _, f := range z.File {
		r, err := f.Open()
		kisttest.Check(t, err)
		content, err := io.ReadAll(r)
		kisttest.Check(t, err)
		list = append(list, archived{f.Name, string(content), f.Mode(), f.Modified.Unix()})
	}
	return list
}

func TestArchive(t *testing.T) {
	s := kisttest.New(t)
	large, fileTime, folderTime := string(kisttest.Noise(1, 3<<20)), time.Unix(1_000_000_000, 5), time.Unix(1_769_860_800, 0)
	s.Write("a", "one")
	s.Write("d/large", large)
	s.Write("d/sub/run.sh", "#!/bin/sh\n")
	s.Write("d/bad\xffname", "x")
	for _, err := range []error{
		os.Chmod(filepath.Join(s.Dir, "d"), 0o755), os.Chmod(filepath.Join(s.Dir, "d/sub/run.sh"), 0o755),
		os.Chmod(filepath.Join(s.Dir, "a"), 0o600),
		os.Symlink("sub/run.sh", filepath.Join(s.Dir, "d/link")), os.Mkdir(filepath.Join(s.Dir, "empty"), 0o755),
		os.Chtimes(filepath.Join(s.Dir, "a"), fileTime, fileTime),
	} {
		s.Check(err)
	}
	s.Add(stage.AddOptions{Paths: []string{""}})
	s.Commit("first")
	source, err := compare.OfCommit(t.Context(), s.Repo, "HEAD")
	s.Check(err)
	archive := func(o checkout.ArchiveOptions) []byte {
		t.Helper()
		var out bytes.Buffer
		_, err := checkout.Archive(t.Context(), source, &out, o)
		s.Check(err)
		return out.Bytes()
	}

	all := checkout.ArchiveOptions{Paths: []string{""}, Format: "tar", Prefix: "p/", Time: folderTime}
	data := archive(all)
	list := readTar(t, bytes.NewReader(data))
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	want := []string{"p/a", "p/d/", "p/d/bad\xffname", "p/d/large", "p/d/link", "p/d/sub/", "p/d/sub/run.sh", "p/empty/"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Fatal(diff)
	}
	for i, want := range map[int]archived{
		0: {"p/a", "one", 0o600, fileTime.Unix()},
		1: {"p/d/", "", os.ModeDir | 0o755, folderTime.Unix()},
		4: {"p/d/link", "sub/run.sh", os.ModeSymlink | 0o777, list[4].Time},
		6: {"p/d/sub/run.sh", "#!/bin/sh\n", 0o755, list[6].Time},
	} {
		if diff := cmp.Diff(want, list[i]); diff != "" {
			t.Error(diff)
		}
	}
	if list[3].Content != large {
		t.Error("the large file has wrong content")
	}
	if !bytes.Equal(data, archive(all)) {
		t.Error("a second archive has other bytes")
	}

	all.Format = "tar.zst"
	z, err := zstd.NewReader(bytes.NewReader(archive(all)))
	s.Check(err)
	defer z.Close()
	if diff := cmp.Diff(list, readTar(t, z)); diff != "" {
		t.Error(diff)
	}
	all.Format = "zip"
	if diff := cmp.Diff(list, readZip(t, archive(all))); diff != "" {
		t.Error(diff)
	}

	// The archive has the parent folders of paths, each once.
	some := checkout.ArchiveOptions{Paths: []string{"d/sub", "d/sub/run.sh", "d/link"}, Format: "tar", Time: folderTime}
	names = nil
	for _, a := range readTar(t, bytes.NewReader(archive(some))) {
		names = append(names, a.Name)
	}
	if want := []string{"d/", "d/link", "d/sub/", "d/sub/run.sh"}; !slices.Equal(names, want) {
		t.Errorf("archived %q, want %q", names, want)
	}

	source.Objects = without{source.Objects, object.KindChunk}
	if _, err := checkout.Archive(t.Context(), source, io.Discard, all); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("with missing content: error %v, want ErrNotFound", err)
	}
}

// without is a reader without the objects of a kind.
type without struct {
	object.Reader
	kind object.Kind
}

func (w without) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if key.Kind == w.kind {
		return nil, &object.AbsentError{Key: key}
	}
	return w.Reader.Get(ctx, key)
}

// A tar archive has all recorded metadata.
func TestArchiveMetadata(t *testing.T) {
	objects := objecttest.NewMemory()
	w := object.NewTreeWriter(objects)
	acl := "\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x07\x00\x07\x00\x00\x00" +
		"\x04\x00\x04\x00\xff\xff\xff\xff" + "\x10\x00\x05\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff"
	attr := map[string][]byte{"user.a": {1, 0, 2}, "user.b=%": {3}, "system.posix_acl_access": []byte(acl), "system.posix_acl_default": []byte(acl[:9])}
	for _, e := range []object.Entry{
		{Name: "a", Type: object.TypeFile, Mode: 0o600, Size: 1, Inline: []byte("x"), Meta: &object.Metadata{UID: 1, GID: 2, Owner: "o", Group: "g", Xattrs: attr, HardLink: 7}},
		{Name: "b", Type: object.TypeFile, Mode: 0o600, Size: 1, Inline: []byte("x"), Meta: &object.Metadata{HardLink: 7}},
		{Name: "fifo", Type: object.TypeFIFO, Meta: &object.Metadata{}},
		{Name: "null", Type: object.TypeCharDevice, Meta: &object.Metadata{Device: unix.Mkdev(1, 3)}},
		{Name: "socket", Type: object.TypeSocket, Meta: &object.Metadata{}},
	} {
		kisttest.Check(t, w.Add(t.Context(), e))
	}
	root, err := w.Finish(t.Context())
	kisttest.Check(t, err)

	var out bytes.Buffer
	_, err = checkout.Archive(t.Context(), compare.Side{Objects: objects, Tree: root}, &out, checkout.ArchiveOptions{Paths: []string{""}, Format: "tar"})
	kisttest.Check(t, err)
	var got []string
	for archive := tar.NewReader(&out); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		kisttest.Check(t, err)
		maps.DeleteFunc(h.PAXRecords, func(key, _ string) bool { return !strings.HasPrefix(key, "SCHILY.") })
		got = append(got, fmt.Sprintf("%s %c %s %d %d %s %s %d,%d", h.Name, h.Typeflag, h.Linkname, h.Uid, h.Gid, h.Uname, h.Gname, h.Devmajor, h.Devminor))
		for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
			got = append(got, fmt.Sprintf("%s: %q", key, h.PAXRecords[key]))
		}
	}
	want := []string{
		`a 0  1 2 o g 0,0`,
		`SCHILY.acl.access: "user::rw-\nuser:7:rwx\ngroup::r--\nmask::r-x\nother::---\n"`,
		fmt.Sprintf("SCHILY.xattr.system.posix_acl_access: %q", acl),
		fmt.Sprintf("SCHILY.xattr.system.posix_acl_default: %q", acl[:9]), // not an ACL
		`SCHILY.xattr.user.a: "\x01\x00\x02"`,
		`SCHILY.xattr.user.b%3D%25: "\x03"`,
		`b 1 a 0 0   0,0`, `fifo 6  0 0   0,0`, `null 3  0 0   1,3`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
