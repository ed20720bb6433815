package pending

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object/objecttest"
)

// A commit that fails because the disk of a folder is full leaves the worktree and the index as
// they were. With space again, a commit of later changes succeeds.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		objecttest.Skip(t, "only root can mount a file system")
	}
	s := start(t, withBranch(t))
	small := filepath.Join(s.Dir, "small")
	s.Check(os.Mkdir(small, 0o755))
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		objecttest.Skip(t, fmt.Sprintf("cannot mount a file system: %v", err))
	}
	t.Cleanup(func() { syscall.Unmount(small, syscall.MNT_DETACH) })
	for i := range 20 {
		s.put("main", fmt.Sprint("file", i), "old", alice)
	}
	s.put("main", "small/a", "old", alice)
	s.commit("main")
	before := s.worktree()

	for i := range 20 {
		s.put("main", fmt.Sprint("file", i), "first", alice)
	}
	s.put("main", "small/a", "first", alice)
	s.put("main", "small/b", string(kisttest.Noise(1, 2<<20)), alice)
	if _, err := s.branch("main").Commit(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the commit ends with %v, want ENOSPC", err)
	}
	s.want(s.worktree(), before)
	s.want(s.staged(), 0)

	for i := range 20 {
		s.put("main", fmt.Sprint("file", i), "second", alice)
	}
	s.put("main", "small/b", "fits", alice)
	s.commit("main")
	s.want(s.worktree(), s.filesOnly("main"))
	s.want(s.staged(), 0)
}

// filesOnly is files without folders.
func (s *server) filesOnly(branch string) map[string]string {
	files := s.files(branch)
	for path, content := range files {
		if content == "/" {
			delete(files, path)
		}
	}
	return files
}
