package stage_test

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// A checkout wrote the files itself. So add reads none of them, and reads a file that was
// changed right afterwards.
func TestAddAfterCheckout(t *testing.T) {
	s := kisttest.New(t)
	var st unix.Statfs_t
	s.Check(unix.Statfs(s.Dir, &st))
	if !slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}, int64(st.Type)) {
		objecttest.Skip(t, "the file system has no leases")
	}
	for _, name := range []string{"a", "d/b"} {
		s.Write(name, strings.Repeat(name, 1000))
	}
	s.Add(stage.AddOptions{})
	s.Commit("first")
	for _, name := range []string{"a", "d/b"} {
		s.Write(name, strings.Repeat("x", len(name)*1000))
	}
	s.Add(stage.AddOptions{})
	s.Commit("second")

	_, err := checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: "HEAD~1"})
	s.Check(err)
	if r := s.Add(stage.AddOptions{}); r.Read.Files != 0 || r.Read.Bytes != 0 {
		t.Errorf("after a checkout, add read %d files of %d bytes", r.Read.Files, r.Read.Bytes)
	}

	_, err = checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: "main"})
	s.Check(err)
	s.Write("a", strings.Repeat("y", 1000))
	if r := s.Add(stage.AddOptions{}); r.Read.Files != 1 || r.Read.Bytes != 1000 || !slices.Equal(r.Modified, []string{"a"}) {
		t.Errorf("after a change, add read %d files of %d bytes, modified %v; want a", r.Read.Files, r.Read.Bytes, r.Modified)
	}
}
