package convert_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/work/convert"
)

func TestDeleteSourceStopsAtMounts(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	above := t.TempDir()
	dir := makeFolder(t, above)
	at := filepath.Join(dir, "d/e")
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size=64k"); err != nil {
		objecttest.Skip(t, "mounting is not allowed: ", err)
	}
	defer func() { _ = syscall.Unmount(at, 0) }()
	x.Check(os.WriteFile(filepath.Join(at, "mounted"), nil, 0o644))
	err := x.run(convert.ImportOptions{DeleteSource: true}, x.source(dir))
	var kept *convert.NotDeletedError
	if !errors.As(err, &kept) || !slices.Equal(kept.Files, []string{"d/e"}) {
		t.Errorf("error %v, kept %+v, want d/e", err, kept)
	}
	if _, err := os.Lstat(filepath.Join(dir, "d/e/mounted")); err != nil {
		t.Error(err)
	}
}
