package registry

import (
	"sync"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
)

// budget bounds the content that a process fetches without being asked for it. It is safe for concurrent use. A nil budget has no
// bound.
type budget struct {
	mu    sync.Mutex // guards the following
	limit int64      // bytes
	spent int64
	ask   func(need *object.BudgetError) bool // whether to go on beyond the limit; nil: no
	asked bool
	free  bool // the answer
}

// RefuseFetches makes the store of r, after [ReadEvicted], fetch nothing. It still reads the files of the worktree. The error for an object that must
// be fetched is an [*object.AwayError] with [object.ErrNoFetch].
func RefuseFetches(r *kist.Repository) {
	if u, ok := r.Objects().Elsewhere.(untilEnd); ok {
		u.refuses = true
	}
}

// LimitFetches makes the store of r, after [ReadEvicted], fetch at most limit bytes of chunks, unless ask, which is called once, returns
// true. Ask may be nil. A caller that knows its content asks before, by [object.Ahead]. Without that, objects are fetched up to the limit.
// From then on, the error for an object that must be fetched is an [*object.BudgetError]. Fetched content stays
// here, so the next process fetches other content.
func LimitFetches(r *kist.Repository, limit int64, ask func(need *object.BudgetError) bool) {
	if u, ok := r.Objects().Elsewhere.(untilEnd); ok {
		u.budget = &budget{limit: limit, ask: ask}
	}
}

// HasBudget implements [volume.Budgeter].
func (e *evictedReader) HasBudget() bool {
	if e.budget == nil {
		return false
	}
	e.budget.mu.Lock()
	defer e.budget.mu.Unlock()
	return !e.budget.free
}

// Agree implements [volume.Budgeter].
func (e *evictedReader) Agree(bytes int64) error { return e.budget.agreeTo(bytes) }

// agreeTo returns an error if so many bytes more are beyond the budget.
func (b *budget) agreeTo(bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free || b.spent+bytes <= b.limit {
		return nil
	}
	return b.askOnce(&object.BudgetError{Limit: b.limit, Bytes: bytes})
}

// askOnce returns need, unless somebody agrees, or has agreed. The caller holds b.mu.
func (b *budget) askOnce(need *object.BudgetError) error {
	if !b.asked && b.ask != nil {
		b.asked, b.free = true, b.ask(need)
	}
	if b.free {
		return nil
	}
	return need
}

// checkSpent returns an error if the budget is spent.
func (b *budget) checkSpent() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent <= b.limit || b.free {
		return nil
	}
	return b.askOnce(&object.BudgetError{Limit: b.limit})
}

// spend counts an object that was fetched.
func (b *budget) spend(key object.Key, data []byte) {
	if b == nil || key.Kind.IsNode() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += int64(len(data))
}
