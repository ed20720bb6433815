//go:build darwin || (linux && !amd64 && !arm64)

package worktree

// lstatListed is lstat for a name of a listing.
func (d *osFolder) lstatListed(l *listing, i int) (fileStat, error) { return d.lstat(l.nameAt(i)) }
