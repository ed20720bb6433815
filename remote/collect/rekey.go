package collect

import (
	"context"

	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// findOldEpochs finds the live packs, index files and state files that are encrypted with another key than the newest, if the
// collection is to replace them. If a later root begins another epoch, the new files are
// abandoned (EPOCH_OF_HEAD), and the collection plans again.
func findOldEpochs(ctx context.Context, c *Collection) error {
	if !c.options.Rekey {
		return nil
	}
	names := make([]string, 0, len(c.livePacks)+len(c.snap.State.Indexes))
	unread, err := findUnreadable(ctx, c, func(p *livePack) bool { return p.archived })
	if err != nil {
		return err
	}
	for _, p := range c.livePacks {
		if !unread[p.Name] {
			names = append(names, p.Name.Path())
		}
	}
	for _, f := range c.snap.State.Indexes {
		names = append(names, f.Name.IndexPath())
	}
	for _, f := range c.snap.State.StateFiles() {
		names = append(names, rootlog.StateName(f.Name))
	}

	epochs, err := transfer.EpochsOf(ctx, c.r, names)
	if err != nil {
		return err
	}
	c.oldEpoch = map[string]bool{}
	for i, name := range names {
		c.oldEpoch[name] = epochs[i] != c.snap.State.Keys.Epoch.Number
	}
	for _, p := range c.livePacks {
		p.hasOldEpoch = c.oldEpoch[p.Name.Path()] || unread[p.Name]
	}
	return nil
}

// statesToReplace returns the state files of the root that are encrypted with an older key.
func statesToReplace(c *Collection) (names []string) {
	for _, f := range c.snap.State.StateFiles() {
		if name := rootlog.StateName(f.Name); c.oldEpoch[name] {
			names = append(names, name)
		}
	}
	return names
}
