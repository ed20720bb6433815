package serve

import (
	"sync"

	"github.com/kist-vcs/kist/object"
)

// maxTypes is the most media types that are kept, of about 100 bytes each.
const maxTypes = 50_000

// types remembers media types by the IDs of contents. It is safe for concurrent use.
type types struct {
	mu    sync.Mutex
	known map[object.ID]string
}

func (t *types) get(id object.ID) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kind, ok := t.known[id]
	return kind, ok
}

func (t *types) add(id object.ID, kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxTypes {
		t.known = map[object.ID]string{}
	}
	t.known[id] = kind
}
