package checkout_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// describeAll describes everything below a folder: stat data, link targets and extended
// attributes.
func describeAll(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	inodes := map[uint64]string{} // first name of each inode
	kisttest.Check(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR && inodes[st.Ino] == "" {
			inodes[st.Ino] = name
		}
		text := ""
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			text, err = os.Readlink(path)
		case unix.S_IFREG:
			var data []byte
			data, err = os.ReadFile(path)
			text = object.Sum(data).String()
		case unix.S_IFDIR:
			st.Size, st.Nlink = 0, 0
		}

		all[name] = fmt.Sprintf("%o %d:%d size %d links %d device %x mtime %d.%09d first %q %s xattrs %q",
			st.Mode, st.Uid, st.Gid, st.Size, st.Nlink, st.Rdev, st.Mtim.Sec, st.Mtim.Nsec, inodes[st.Ino], text, xattrsOf(t, path))
		return err
	}))
	return all
}

func xattrsOf(t *testing.T, path string) (list []string) {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err == unix.ENOTSUP {
		return nil
	}
	kisttest.Check(t, err)
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(path, name, value)
		kisttest.Check(t, err)
		list = append(list, name+"="+string(value[:n]))
	}
	slices.Sort(list)
	return list
}

// allTypes returns a repository with full metadata and a commit of the tree that
// testdata/alltypes.sh makes, as the folder t.
func allTypes(t *testing.T) *kisttest.Repository {
	s := kisttest.NewWith(t, kist.InitOptions{Full: true})
	out, err := exec.Command("../../../testdata/alltypes.sh", filepath.Join(s.Dir, "t")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.Add(stage.AddOptions{})
	s.Commit("all")
	return s
}

// A tree with every kind of file is equal after it was extracted elsewhere. As root, the tree
// also has foreign owners and devices.
func TestFullMetadata(t *testing.T) {
	s := allTypes(t)
	want := describeAll(t, filepath.Join(s.Dir, "t"))
	source, err := compare.OfCommit(t.Context(), s.Repo, "HEAD")
	s.Check(err)
	to := filepath.Join(t.TempDir(), "to")
	extract := func() *checkout.Extracted {
		t.Helper()
		full := new(worktree.FullMetadata)
		result, err := checkout.Extract(t.Context(), s.Repo, source, checkout.ExtractOptions{Paths: []string{""}, To: to, Metadata: full})
		s.Check(err)
		if denied := full.Denied(); denied != (worktree.Denied{}) {
			t.Errorf("denied: %+v", denied)
		}
		if diff := cmp.Diff(want, describeAll(t, filepath.Join(to, "t"))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return result
	}
	extract()
	if again := extract(); again.Files != 0 {
		t.Errorf("extracting again wrote %d files, want none", again.Files)
	}
	var st unix.Stat_t
	if s.Check(unix.Stat(filepath.Join(to, "t/sparse"), &st)); st.Blocks*512 > st.Size/2 {
		t.Errorf("the sparse file uses %d bytes of %d", st.Blocks*512, st.Size)
	}

	// A broken hard link and changed modes are restored.
	kisttest.Check(t, os.Remove(filepath.Join(to, "t/d/link")))
	kisttest.Check(t, os.WriteFile(filepath.Join(to, "t/d/link"), []byte("small\n"), 0o644))
	kisttest.Check(t, os.Chmod(filepath.Join(to, "t/d/mode"), 0o600))
	kisttest.Check(t, os.Chmod(filepath.Join(to, "t/d"), 0o700))
	extract()
}

// The status shows changed metadata. An unchanged tree has no changes.
func TestStatusOfFullMetadata(t *testing.T) {
	s := allTypes(t)
	changed := func() (paths []string) {
		t.Helper()
		status, err := stage.ReadStatus(t.Context(), s.Repo, stage.StatusOptions{})
		s.Check(err)
		for _, f := range status.Changed {
			paths = append(paths, f.Path)
		}
		return paths
	}

	if paths := changed(); paths != nil {
		t.Errorf("unchanged tree: %q", paths)
	}
	s.Check(os.Chmod(filepath.Join(s.Dir, "t/fifo"), 0o600))
	s.Check(os.Chmod(filepath.Join(s.Dir, "t/sticky"), 0o700))
	s.Check(os.Link(filepath.Join(s.Dir, "t/large"), filepath.Join(s.Dir, "t/other")))
	if diff := cmp.Diff([]string{"t/fifo", "t/large", "t/sticky"}, changed()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	s.Add(stage.AddOptions{})
	if paths := changed(); paths != nil {
		t.Errorf("after add: %q", paths)
	}

	idx, err := s.Repo.Index()
	s.Check(err)
	if a, b := idx.Entry("t/large").Metadata(), idx.Entry("t/other").Metadata(); a.HardLink != b.HardLink || a.HardLink != worktree.HardLinkGroup("t/large") {
		t.Errorf("hard link groups of the two names: %x, %x", a.HardLink, b.HardLink)
	}
}
