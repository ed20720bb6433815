package collect

import (
	"context"
	"sync"

	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/transfer"
)

// ArchiveStats counts the packs that an operation would read, and leaves unread because their store must thaw them first.
type ArchiveStats struct {
	Archived      int   `json:"archived" doc:"the number of packs that lie in an archive, and that it could not read"`
	ArchivedBytes int64 `json:"bytes_archived" doc:"their size"`
}

// addPack counts a pack.
func (s *ArchiveStats) addPack(bytes int64) {
	s.Archived++
	s.ArchivedBytes += bytes
}

// mustCopyArchived reports whether the reachable objects of an archived pack are to be copied: half of it is garbage, or it must not stay
// as it is. Stores charge for archived files that are deleted early, and for each read. So less garbage stays.
func mustCopyArchived(p *livePack) bool {
	return p.hasPurged || p.hasOldEpoch || 2*p.waste() >= int64(p.Size)
}

// findUnreadable returns the packs for which wanted returns true and that cannot be read before a thaw.
func findUnreadable(ctx context.Context, c *Collection, wanted func(*livePack) bool) (map[pack.Name]bool, error) {
	var mu sync.Mutex
	found := map[pack.Name]bool{}
	return found, transfer.Parallel(ctx, c.options.Jobs, len(c.livePacks), func(ctx context.Context, i int) error {
		p := c.livePacks[i]
		if !wanted(p) {
			return nil
		}
		info, err := c.r.Backend().Stat(ctx, p.Name.Path())
		if err == nil && info.Archived {
			mu.Lock()
			found[p.Name] = true
			mu.Unlock()
		}
		return err
	})
}

// leaveUnreadable leaves the chosen packs that cannot be read before a thaw as they are, and counts them.
func leaveUnreadable(ctx context.Context, c *Collection) error {
	unread, err := findUnreadable(ctx, c, func(p *livePack) bool { return p.archived && p.mustCopy })
	c.stats.ArchiveStats = ArchiveStats{}
	for _, p := range c.livePacks {
		if unread[p.Name] {
			p.mustCopy = false
			c.stats.addPack(c.sizeOf(p.Name.Path()))
		}
	}
	return err
}
