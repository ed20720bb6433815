//go:build darwin || (linux && !amd64 && !arm64)

package worktree

// listed is lstat for a name of a listing.
func (d *osFolder) listed(l *listing, i int) (fileStat, error) { return d.lstat(l.name(i)) }
