package worktree

import (
	"sync"
	"sync/atomic"
)

// A folder of at least wideFolder names is split among all workers, wideStep
// names at a time.
const (
	wideFolder = 4096
	wideStep   = 512
)

// allNames compares all names of the listing with the index.
func (d *dirScan) allNames() {
	n := len(d.list.entries)
	if n < wideFolder || d.w.opt.Jobs == 1 {
		d.names(0, n)
		return
	}

	parts := make([]dirScan, d.w.opt.Jobs)
	var next atomic.Int64
	var workers sync.WaitGroup
	for i := range parts {
		task := *d.scanTask
		task.out = new(scanned)
		parts[i] = dirScan{scanner: d.scanner, scanTask: &task, list: d.list, folder: d.folder,
			isCache: d.isCache, badIgnore: d.badIgnore}
		workers.Go(func() {
			for d.failure() == nil {
				to := int(next.Add(wideStep))
				if to-wideStep >= n {
					return
				}
				parts[i].names(to-wideStep, min(to, n))
			}
		})
	}

	workers.Wait()
	for i := range parts {
		p := &parts[i]
		d.out.items = append(d.out.items, p.out.items...)
		d.subs = append(d.subs, p.subs...)
		d.count += p.count
		d.seen += p.seen
	}
}
