package worktree

import (
	"context"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// contentAhead prefetches the content of files before they are written, if it may be far away. It is safe
// for concurrent use.
type contentAhead struct {
	mu     sync.Mutex // held while content is fetched
	batch  *object.FileBatch
	order  []int       // places in ops, in the order in which files are written
	number map[int]int // in order, by place
	next   int         // number of the first file that was not prefetched
}

// newContentAhead returns a contentAhead for groups of operations, or nil if all content is here. PassFrom is that of
// [ApplyOptions].
func newContentAhead(r object.Reader, groups [][]int, passFrom uint64) *contentAhead {
	if !object.HasFar(r) {
		return nil
	}
	c := &contentAhead{batch: object.NewFileBatch(r), number: map[int]int{}}
	c.batch.PassFrom = passFrom
	for _, group := range groups {
		for _, i := range group {
			c.number[i] = len(c.order)
			c.order = append(c.order, i)
		}
	}
	return c
}

// bring prefetches the content of operation i, and of the next ones, unless it was prefetched.
// Other goroutines wait.
func (c *contentAhead) bring(ctx context.Context, ops opList, i int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.number[i] < c.next {
		return
	}
	for more := true; more && c.next < len(c.order); c.next++ {
		more = c.batch.Add(ctx, *ops[c.order[c.next]].New)
	}
	c.batch.Prefetch(ctx)
}
