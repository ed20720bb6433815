package registry

import (
	"os"
	"syscall"

	"github.com/kist-vcs/kist"
)

// IsOnSameDisk reports whether a remote is a folder on the file system of the repository. Then one broken disk takes both.
func IsOnSameDisk(r *kist.Repository, name string) bool {
	m, err := Find(r, name)
	if err != nil {
		return false
	}
	folder, ok := folderOf(r, m.URL)
	if !ok {
		return false
	}
	here, err := os.Stat(r.Dir())
	if err != nil {
		return false
	}
	there, err := os.Stat(folder)
	if err != nil {
		return false
	}
	a, ok := here.Sys().(*syscall.Stat_t)
	b, also := there.Sys().(*syscall.Stat_t)
	return ok && also && a.Dev == b.Dev
}
